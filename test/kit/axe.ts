/** axe-core in a page: what it finds, one line for each rule that is broken. */
import { join } from "node:path"
import type { Page } from "playwright-core"

const SCRIPT = join(import.meta.dir, "../node_modules/axe-core/axe.min.js")
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

interface Found {
  readonly id: string
  readonly nodes: readonly { readonly html: string }[]
}

/** The debugger evaluates it: a script element would violate the policy of the page. */
export const violations = async (page: Page): Promise<readonly string[]> => {
  const script = await Bun.file(SCRIPT).text()
  const found = (await page.evaluate(`${script};
    axe.run(document, { runOnly: ${JSON.stringify(RULES)} }).then((result) => result.violations)`)) as readonly Found[]
  return found.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`,
  )
}

/** Waits for the motions of drawers and panels: colours that are still moving have no contrast of their own. */
export const settled = (page: Page): Promise<unknown> =>
  page.evaluate(
    `Promise.all(document.getAnimations()
      .filter((one) => one.effect.getTiming().iterations !== Infinity)
      .map((one) => one.finished.catch(() => undefined)))`,
  )

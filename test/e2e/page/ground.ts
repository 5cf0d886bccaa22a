/** What the groups of browser tests share: one binary, one browser, one logged-in page, one scripted model. */
import type { Page } from "playwright-core"
import type { ScriptedModel } from "../../kit/model.ts"
import type { PageStage } from "../../kit/page.ts"
import { untilTrue } from "../../kit/until-true.ts"

export interface Ground {
  readonly stage: PageStage
  readonly model: ScriptedModel
  readonly page: Page
  /** Errors of scripts and violations of the content security policy since the page was opened. */
  readonly problems: readonly string[]
}

/** A gate for the model: its reply goes on when the test opens it. */
export const gate = (): { readonly opened: Promise<void>; readonly open: () => void } => {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}

/** Waits for something outside of the page. */
export const eventually = (
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  limitMs?: number,
): Promise<void> => untilTrue(isTrue, what, limitMs)

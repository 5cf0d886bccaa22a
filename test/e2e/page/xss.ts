/** Everything that the agent can fill is shown as text. The policy that would stop a script is switched off here. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { httpError, reasoning, reply, text, tool } from "../../kit/model.ts"
import { openConversation, sendPrompt, turnIsOver } from "../../kit/page.ts"
import type { Ground } from "./ground.ts"

/** No space and no slash at its end: it is also a file name, a branch and the id of a model. */
export const VECTOR = "<svg/onload=window.pwned=1>"
const IMAGE = `<img src=x onerror="window.pwned=1">`

/** Ways into an element that Markdown, a link, a table, a code block or raw HTML could open. */
const MARKDOWN = [
  IMAGE,
  VECTOR,
  "<script>window.pwned=1</script>",
  "[a](javascript:window.pwned=1) [b](JaVaScRiPt:window.pwned=1) [c](data:text/html,<script>window.pwned=1</script>)",
  `[d](https://example.com "onmouseover=window.pwned=1") <a href="javascript:window.pwned=1">e</a>`,
  `![f](x"onerror="window.pwned=1) ![g](javascript:window.pwned=1)`,
  "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
  "<details open ontoggle=window.pwned=1>h</details>",
  "<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=1>",
  "| a | b |\n|---|---|\n| <img src=x onerror=window.pwned=1> | [x](vbscript:window.pwned=1) |",
  `\`\`\`html"onload="window.pwned=1\n${IMAGE}\n\`\`\``,
  `<input autofocus onfocus=window.pwned=1> <form action=javascript:window.pwned=1><button>i</button></form>`,
  "[j]: javascript:window.pwned=1\n\n[j] <base href=//evil.example> <style>*{display:none}</style>",
  `# ${IMAGE}\n\n- [ ] ${VECTOR}\n- [x] <object data=javascript:window.pwned=1>`,
].join("\n\n")

/** Elements and attributes of the document that could run something. The page itself has one script. */
const dangers = (page: Page): Promise<readonly string[]> =>
  page.evaluate(`[...document.querySelectorAll("*")].flatMap((one) => [
    ...(/^(IFRAME|OBJECT|EMBED|BASE|STYLE|MATH|FORM)$/i.test(one.tagName) && !one.matches(".composer, dialog form, iframe.frame")
      ? [one.outerHTML.slice(0, 80)] : []),
    ...(one.tagName === "SCRIPT" && !one.src.startsWith(location.origin + "/assets/") ? [one.outerHTML] : []),
    ...[...one.attributes].filter(({ name, value }) =>
      /^on/i.test(name) || (/^(href|src|action|data|xlink:href)$/i.test(name) && /^\\s*(javascript|vbscript|data:text)/i.test(value)),
    ).map(({ name, value }) => one.tagName + " " + name + "=" + value),
  ])`)

export const testXss = (ground: () => Ground): void => {
  test("text of the agent in every field of the page creates no element and runs nothing, without the policy too", async () => {
    const { stage, model } = ground()
    const { workDir } = stage.sandbox
    model.on("xss-say", [reply(reasoning(`**${IMAGE}**\n\n${MARKDOWN}`), text(MARKDOWN))])
    model.on("xss-act", [
      tool("bash", {
        command: `printf '%s\\n' '${VECTOR}' '<img src=x onerror=window.pwned=1>'; git checkout -q -b '${VECTOR}'; exit 3`,
        description: IMAGE,
      }),
      tool("write", {
        filePath: join(workDir, `${IMAGE}${VECTOR.replace("/", "")}.html`),
        content: MARKDOWN,
      }),
      tool("read", { filePath: join(workDir, `${VECTOR}missing`) }),
      tool(IMAGE, { argument: IMAGE }),
      tool("todowrite", { todos: [{ content: IMAGE, status: "in_progress", priority: "high" }] }),
      tool("send_image", { source: "data:image/png;base64,iVBORw0KGgo=", caption: IMAGE }),
      tool("question", {
        questions: [
          { question: MARKDOWN, header: IMAGE, options: [{ label: IMAGE, description: VECTOR }] },
        ],
      }),
      text(`Done. ${VECTOR}`),
    ])
    model.on("xss-fail", [httpError(400, { message: `${IMAGE} ${VECTOR}`, code: VECTOR })])
    const { page, context } = await stage.open({ bypassCSP: true })
    await openConversation(page, stage, "xss")
    const check = async (where: string) => {
      expect([where, ...(await dangers(page))]).toEqual([where])
      expect([where, await page.evaluate("window.pwned")]).toEqual([where, undefined])
    }
    await sendPrompt(page, "@@xss-say@@")
    await turnIsOver(page, "@@xss-say@@")
    await page.locator(".reply [data-fold]").first().click()
    expect(await page.locator(".reply").innerText()).toContain("<img src=x onerror=")
    await check("Markdown and reasoning")
    await sendPrompt(page, "@@xss-act@@")
    for (const [index, where] of ["the command", "the file"].entries()) {
      const allow = page.getByRole("button", { name: "Allow once" })
      await allow.waitFor()
      if (index === 0) expect(await page.locator(".pattern").first().innerText()).toContain(VECTOR)
      await check(`the permission of ${where}`)
      await allow.click()
      await allow.waitFor({ state: "detached" })
    }
    await page.locator("[data-option='1']").waitFor()
    await check("the question")
    await page.locator("[data-option='1']").click()
    await turnIsOver(page, "@@xss-act@@")
    const closed = page.locator("[data-fold][aria-expanded=false]")
    for (let left = await closed.count(); left > 0; left--) await closed.first().click()
    await check("rows of tools, their output, their diff, the plan")
    await sendPrompt(page, "@@xss-fail@@")
    await page.locator(".failed").waitFor()
    expect(await page.locator(".failed").innerText()).toContain(VECTOR)
    await check("the error")
    for (const panel of ["changes", "preview", "images", "tasks", "memories"]) {
      await page.goto(`${stage.origin}/c/local/web:xss?panel=${panel}`)
      await page
        .locator(
          ".panel .empty, .panel .file, .panel .list, .panel .image, .panel .shown-file, .panel .frame",
        )
        .first()
        .waitFor()
      await check(`the panel ${panel}`)
    }
    await page.keyboard.press("Control+k")
    await page.locator("dialog.palette input").fill("onload")
    await page.locator(".palette-row mark").first().waitFor()
    await check("hits of the search")
    await page.keyboard.press("Escape")
    await page.locator(".picker-button").click()
    await page.getByRole("option").first().waitFor()
    await check("the models")
    await page.keyboard.press("Escape")
    await page
      .getByRole("button", { name: "Rename the conversation" })
      .or(page.locator("h1 button"))
      .first()
      .click()
    await page.locator(".title-field").fill(IMAGE)
    await page.locator(".title-field").press("Enter")
    await page.locator(".row-title", { hasText: IMAGE }).waitFor()
    await check("the title and the side")
    await context.close()
  }, 120_000)

  test("the same text under the policy of the page causes no violation", async () => {
    const { stage, page, problems } = ground()
    await page.goto(`${stage.origin}/c/local/web:xss`)
    await page.locator(".failed").waitFor()
    expect(problems.filter((problem) => !problem.includes("WebSocket"))).toEqual([])
    expect(await page.evaluate("window.pwned")).toBeUndefined()
  })
}

/** `sandpiper up` as a person uses it: the compiled binary, the real OpenCode, the demo model, and a browser at its page. */
import type { Browser, BrowserContext, Page } from "playwright-core"
import { launchBrowser } from "./browser.ts"
import { freePort } from "./free-port.ts"
import type { ScriptedModel } from "./model.ts"
import { createSandbox, requireBinary, type Sandbox } from "./runner.ts"
import { untilTrue, WAIT_MS } from "./until-true.ts"

export interface PageStage {
  readonly sandbox: Sandbox
  readonly browser: Browser
  readonly origin: string
  /** Another login link. */
  readonly link: () => string
  /** A page that has logged in, with its own storage. */
  readonly open: (options?: Parameters<Browser["newContext"]>[0]) => Promise<OpenedPage>
  /** Kills `up` with SIGKILL and starts it again in the same directory; `between` runs while no `up` runs. */
  readonly killAndRestart: (between?: () => void | Promise<void>) => Promise<void>
  readonly stop: () => Promise<void>
}

export interface OpenedPage {
  readonly context: BrowserContext
  readonly page: Page
  /** Errors of scripts and violations of the content security policy. */
  readonly problems: readonly string[]
}

export const startPage = async (
  extra: Record<string, string> = {},
  {
    model,
    furnish = async () => {},
    directory,
    port = freePort(),
    browser: given,
  }: {
    /** Replies instead of the demo model. */
    readonly model?: ScriptedModel
    /** Prepares the workspace before the start. */
    readonly furnish?: (sandbox: Sandbox) => Promise<unknown>
    /** An existing directory to work in, instead of one of the sandbox. */
    readonly directory?: string
    readonly port?: number
    /** Not closed with the stage, instead of one of its own. */
    readonly browser?: Browser
  } = {},
): Promise<PageStage> => {
  const binary = requireBinary()
  const created = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const sandbox = { ...created, workDir: directory ?? created.workDir }
  await furnish(sandbox)
  const { PATH = "", HOME = "", OPENCODE_BIN = "", WHISPER_MODELS } = sandbox.environment
  const env = {
    PATH,
    HOME,
    OPENCODE_BIN,
    ...(WHISPER_MODELS !== undefined && { WHISPER_MODELS }),
    GATEWAY_PORT: String(port),
    SANDPIPER_SERVICES: "",
    AGENT_USER: "root",
    ...(model && { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: model.apiKey }),
    ...extra,
  }
  const start = (sign: string) => startUp([binary, "up"], sandbox.workDir, env, sign)
  const [first, browser] = await Promise.all([
    start("Ready. The agent works in"),
    given ?? launchBrowser(),
  ])
  let up = first
  const link = () => {
    const printed = Bun.spawnSync([binary, "link"], { cwd: sandbox.workDir, env })
    const found = /http:\/\/\S+#login=\S+/.exec(printed.stdout.toString())?.[0]
    if (found === undefined)
      throw new Error(`no link: ${printed.stdout.toString()}${printed.stderr.toString()}`)
    return found
  }
  return {
    sandbox,
    browser,
    origin: `http://sandpiper.localhost:${port}`,
    link,
    open: (options) => openPage(browser, link(), options),
    killAndRestart: async (between) => {
      up.kill("SIGKILL")
      await up.exited
      await between?.()
      // An agent that goes on with a turn is ready, and says so, when the turn is over.
      up = await start("Starting the agent")
    },
    stop: async () => {
      if (given === undefined) await browser.close()
      // A killed runner leaves OpenCode and the key broker to the next one; a stopped one ends them.
      up.kill("SIGTERM")
      await up.exited
      await sandbox.remove()
    },
  }
}

/** The input stays open: at its end the chat, and `up` with it, would end. */
const startUp = async (
  command: string[],
  cwd: string,
  env: Record<string, string>,
  sign: string,
) => {
  const up = Bun.spawn(command, { cwd, env, stdin: "pipe", stdout: "pipe", stderr: "inherit" })
  let printed = ""
  // Its output is read to the end: a closed pipe would end `up`.
  const reading = (async () => {
    for await (const bytes of up.stdout) printed += new TextDecoder().decode(bytes)
  })()
  await untilTrue(
    async () => {
      if (up.exitCode !== null) {
        await reading
        throw new Error(`up has ended:\n${printed}`)
      }
      return printed.includes(sign)
    },
    () => `${sign} in the output of up:\n${printed}\n`,
  )
  return up
}

/** A page that logs in with this link. */
export const openPage = async (
  browser: Browser,
  link: string,
  options: Parameters<Browser["newContext"]>[0] = {},
): Promise<OpenedPage> => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const problems: string[] = []
  page.on("pageerror", (error) => problems.push(String(error)))
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedHTML/i.test(message.text())) problems.push(message.text())
  })
  await page.goto(link)
  await page.locator("#prompt").waitFor()
  return { context, page, problems }
}

/** Opens a conversation of its own, so that tests on one stage do not see each other's turns. */
export const openConversation = async (
  page: Page,
  { origin }: PageStage,
  name: string,
): Promise<void> => {
  await page.goto(`${origin}/c/local/web:${name}`)
  await page.getByText("What should be done?").waitFor()
}

export const sendPrompt = async (page: Page, text: string): Promise<void> => {
  await page.locator("#prompt").fill(text)
  await page.locator("#prompt").press("Enter")
}

/** The last turn of the page is the one of this prompt, and it is over. Turns far from the view are not in the document. */
export const turnIsOver = (page: Page, prompt: string): Promise<void> =>
  until(
    page,
    `(() => {
      const turn = [...document.querySelectorAll(".turn")].at(-1)
      return !document.querySelector(".status, .is-pending, .is-asking") &&
        turn?.querySelector(".bubble-text")?.textContent === ${JSON.stringify(prompt)} &&
        turn.querySelector(".turn-foot, .failed, .stopped")
    })()`,
  )

/** The first turn in view, and where it is. */
export const firstTurn = (page: Page): Promise<readonly [turn: string, top: number]> =>
  page.evaluate(`(() => {
    const top = document.querySelector("#log").getBoundingClientRect().top
    const turn = [...document.querySelectorAll("[data-turn]")].find(
      (one) => one.getBoundingClientRect().bottom > top,
    )
    return [turn.dataset.turn, turn.getBoundingClientRect().top]
  })()`)

/** The wheel scrolls for a while: resolves when the log has not moved for 30 frames of the browser. */
export const untilStill = (page: Page): Promise<void> =>
  page.evaluate(`new Promise((resolve) => {
    const log = document.querySelector("#log")
    let last = log.scrollTop
    let still = 0
    const look = () => {
      still = log.scrollTop === last ? still + 1 : 0
      last = log.scrollTop
      if (still === 30) resolve()
      else requestAnimationFrame(look)
    }
    look()
  })`)

/** Waits until an expression is true in the page. The page's policy forbids to evaluate text; the debugger may do it. */
export const until = (page: Page, expression: string, limitMs = WAIT_MS): Promise<void> =>
  untilTrue(() => page.evaluate<boolean>(`Boolean(${expression})`), expression, limitMs)

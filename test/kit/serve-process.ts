/** The compiled `serve` as a process, its commands, its API, and the frames in which its page shows sandboxes. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Frame, Page } from "playwright-core"
import { requireBinary, type Sandbox } from "./runner.ts"
import { untilTrue } from "./until-true.ts"

export interface ServeProcess {
  readonly pid: number
  /** Of the hub and the fleet, with the operator's token. */
  readonly address: () => { readonly url: string; readonly token: string }
  /** What a command of the same state directory prints. */
  readonly output: (...words: readonly string[]) => string
  /** A new login link; empty while there is no page. */
  readonly link: () => string
  /** The hub and the fleet over HTTP, for the operator unless another token is given. With a body it is a POST. */
  readonly call: (path: string, body?: object, token?: string) => Promise<Record<string, unknown>>
  readonly listed: () => readonly { readonly sessionId: string; readonly status: string }[]
  /** Ends `serve` by this signal, and no sandbox. */
  readonly end: (signal: NodeJS.Signals) => Promise<void>
  /** Ends the sandboxes, which go on when `serve` ends, then `serve`. */
  readonly stop: () => Promise<void>
}

/** Resolves when the page is there. */
export const startServeProcess = async (
  { environment, stateDir, workDir }: Sandbox,
  variables: Readonly<Record<string, string>>,
): Promise<ServeProcess> => {
  const binary = requireBinary()
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = environment
  const env = { PATH, HOME, OPENCODE_BIN, ...variables }
  const state = ["--state-dir", stateDir]
  const serve = Bun.spawn([binary, "serve", ...state, "--log-level", "error"], {
    env,
    cwd: workDir,
    stdout: "ignore",
    stderr: "inherit",
  })
  const output = (...words: readonly string[]) =>
    Bun.spawnSync([binary, ...words, ...state], { env }).stdout.toString()
  const link = () => /http:\/\/\S+#login=\S+/.exec(output("link"))?.[0] ?? ""
  const read = (file: string) => readFileSync(join(stateDir, "fleet", file), "utf8").trim()
  const address = () => ({
    url: `http://127.0.0.1:${read("hub-port")}`,
    token: read("operator-token"),
  })
  const call: ServeProcess["call"] = async (path, body, token) => {
    const { url, token: own } = address()
    const response = await fetch(`${url}${path}`, {
      headers: { authorization: `Bearer ${token ?? own}` },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    })
    return (await response.json()) as Record<string, unknown>
  }
  const listed: ServeProcess["listed"] = () => JSON.parse(output("fleet", "ls", "--json")).sandboxes
  const end = async (signal: NodeJS.Signals) => {
    serve.kill(signal)
    await serve.exited
  }
  const stop = async () => {
    try {
      for (const { sessionId } of listed()) await call(`/api/sandbox/${sessionId}/terminate`, {})
      const isOver = () => listed().every(({ status }) => status === "terminated")
      await untilTrue(isOver, "end of the sandboxes")
    } finally {
      await end("SIGTERM")
    }
  }
  // One that was killed leaves its address behind.
  const answers = () =>
    fetch(`${address().url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  await untilTrue(async () => link() !== "" && (await answers()), "the page of serve")
  return { pid: serve.pid, address, output, link, call, listed, end, stop }
}

/** Sends a prompt and waits for an answer of the demo model; one of before counts, too. */
export const askDemo = async (page: Page, content: string): Promise<void> => {
  await page.locator("#prompt").fill(content)
  await page.keyboard.press("Enter")
  const answer = page.locator(".log").getByText("I am the scripted demo model").first()
  await answer.waitFor({ timeout: 100_000 })
}

/** The session that the page shows. */
export const sessionAt = (page: Page): string => /\/c\/([^/]+)\//.exec(page.url())?.[1] ?? ""

/** The frame at a sandbox, once there is one for which the rule holds. */
export const frameAtBox = async (
  page: Page,
  fits: (url: URL) => boolean = () => true,
): Promise<Frame> => {
  const isBox = (url: string) => /^http:\/\/(web--)?box-\w+\.sandpiper\.localhost:/.test(url)
  const find = () => page.frames().find((one) => isBox(one.url()) && fits(new URL(one.url())))
  await untilTrue(async () => find() !== undefined, "a frame at the sandbox")
  return find() ?? page.mainFrame()
}

export const openPanel = async (page: Page, panel: string): Promise<void> => {
  await page.goto(`${page.url().replace(/\?.*/, "")}?panel=${panel}`)
}

export const frameOf = async (page: Page, panel: string): Promise<Frame> => {
  await openPanel(page, panel)
  return frameAtBox(page)
}

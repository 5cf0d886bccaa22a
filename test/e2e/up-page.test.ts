/** `sandpiper up DIR --open --chat` and `sandpiper link`: what the browser gets, where the agent works, and which chat runs. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, realpath, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTerminal, type Terminal } from "../kit/terminal.ts"
import { untilTrue } from "../kit/until-true.ts"

let sandbox: Sandbox
let terminal: Terminal
let env: Record<string, string>
let origin = ""
let directory = ""
const recorded = () => join(sandbox.root, "opened")

beforeAll(async () => {
  requireBinary()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const programs = join(sandbox.root, "programs")
  await mkdir(programs)
  await mkdir(join(sandbox.workDir, "project"))
  directory = await realpath(join(sandbox.workDir, "project"))
  // A browser that keeps its arguments and what it was given to read.
  const browser = `printf '%s\\n' "$@" > "${recorded()}.new"\ncat "\${1#file://}" > "${recorded()}.html"\nmv "${recorded()}.new" "${recorded()}"`
  await writeFile(join(programs, "xdg-open"), `#!/bin/sh\n${browser}\n`, { mode: 0o755 })
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = sandbox.environment
  const port = freePort()
  origin = `http://sandpiper.localhost:${port}`
  env = {
    PATH: `${programs}:${PATH}`,
    HOME,
    OPENCODE_BIN,
    DISPLAY: ":99",
    GATEWAY_PORT: String(port),
    SANDPIPER_SERVICES: "",
    AGENT_USER: "root",
  }
  terminal = startTerminal([requireBinary(), "up", "project", "--open", "--chat"], {
    cwd: sandbox.workDir,
    env,
  })
  await terminal.seen("Ready. The agent works in")
})
afterAll(async () => {
  await terminal?.stop()
  await sandbox?.remove()
})

/** What the page gets for the code of a link. */
const logIn = (code: string): Promise<Response> =>
  fetch(`${origin}/login`, {
    method: "POST",
    headers: { "content-type": "application/json", origin, "sec-fetch-site": "same-origin" },
    body: JSON.stringify({ code }),
  })

const codeIn = (text: string): string => /#login=([\w-]+)/.exec(text)?.[1] ?? ""

test("the browser gets a file with a login link that works once, and the link is in no argument", async () => {
  await untilTrue(() => existsSync(recorded()), "call of the browser")
  const args = await Bun.file(recorded()).text()
  expect(args).toMatch(/^file:\/\/\S+open\.html\n$/)
  expect(args).not.toContain("login=")
  const page = await Bun.file(`${recorded()}.html`).text()
  expect(page).toContain(`${origin}/#login=`)
  const first = await logIn(codeIn(page))
  expect(first.status).toBe(200)
  expect(await first.json()).toMatchObject({ key: expect.any(String) })
  expect((await logIn(codeIn(page))).status).toBe(401)
})

test("the agent works in the directory of the argument, and the chat runs beside the page", async () => {
  expect(terminal.text()).toContain(`The agent works in ${directory}`)
  expect(terminal.text()).toContain(`Open the page: ${origin}/#login=`)
  terminal.type("run: pwd > here.txt\r")
  await terminal.seen("in the sandbox gave")
  expect((await Bun.file(join(directory, "here.txt")).text()).trim()).toBe(directory)
})

test("`link` prints another link, which works, and says what to do where nothing runs", async () => {
  const link = (cwd: string) => Bun.spawnSync([requireBinary(), "link"], { cwd, env })
  const printed = link(directory).stdout.toString()
  expect(printed).toContain(`${origin}/#login=`)
  expect((await logIn(codeIn(printed))).status).toBe(200)
  const elsewhere = link(sandbox.root)
  expect(elsewhere.exitCode).not.toBe(0)
  expect(elsewhere.stderr.toString()).toContain("sandpiper up")
})

test("without a display --open is refused with what to do instead", () => {
  const { DISPLAY: _display, ...rest } = env
  const refused = Bun.spawnSync([requireBinary(), "up", "--open"], {
    cwd: sandbox.root,
    env: rest,
    stdin: "ignore",
  })
  expect(refused.exitCode).toBe(2)
  expect(refused.stderr.toString()).toContain("open the printed link")
})

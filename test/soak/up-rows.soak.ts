/**
 * What people stumbled over in `sandpiper up`, each in a terminal with the compiled binary. `test/e2e/up-rows.test.ts` lists
 * all of it, also what other files test.
 */
import { Database } from "bun:sqlite"
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import {
  cut,
  httpError,
  reply,
  type ScriptedModel,
  startScriptedModel,
  text,
  waitFor,
} from "../kit/model.ts"
import { killOpenCode } from "../kit/opencode-processes.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTestSessionAgent } from "../kit/session-agent.ts"
import { startTerminal, type Terminal } from "../kit/terminal.ts"
import { untilTrue } from "../kit/until-true.ts"

// Several starts of OpenCode in one test, also on a busy machine.
setDefaultTimeout(240_000)
const binary = requireBinary()
const PASSWORD = "password-of-the-tui"
const LONG_MS = 120_000
let model: ScriptedModel
let sandbox: Sandbox
let env: Record<string, string>
let gateway: number
let terminal: Terminal
const open: Terminal[] = []

const start = (args: readonly string[], more: Record<string, string> = {}): Terminal => {
  const started = startTerminal([binary, ...args], {
    cwd: sandbox.workDir,
    env: { ...env, ...more },
    cols: 200,
  })
  open.push(started)
  return started
}
/** `up` in the sandbox's directory, ready for a prompt. */
const up = async (more: Record<string, string> = {}): Promise<Terminal> => {
  const started = start(["up"], more)
  await started.seen("Ready. The agent works in", LONG_MS)
  await started.seen(/\n>$/)
  return started
}
const leave = (one: Terminal): Promise<number> => {
  one.type("\u0004")
  return one.exited
}

beforeAll(async () => {
  model = await startScriptedModel()
  gateway = freePort()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  env = {
    PATH,
    HOME,
    OPENCODE_BIN,
    SANDPIPER_STATE_DIR,
    GATEWAY_PORT: String(gateway),
    OPENCODE_SERVER_PASSWORD: PASSWORD,
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: model.apiKey,
    SANDPIPER_MODEL: "m1",
    SANDPIPER_LOCAL_MODELS: "none",
  }
  terminal = await up()
})
afterAll(async () => {
  for (const one of open) await one.kill()
  await killOpenCode(sandbox)
  await model.stop()
  await sandbox.remove()
})

const hub = async (path: string, init: RequestInit = {}): Promise<Response> => {
  const file = join(sandbox.stateDir, "hub/address.json")
  const { url, token } = JSON.parse(readFileSync(file, "utf8")) as { url: string; token: string }
  return fetch(`${url}/sessions/local${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
  })
}
interface Seen {
  readonly queue: readonly unknown[]
  readonly state: Readonly<Record<string, unknown>>
  readonly messages: readonly {
    readonly role: string
    readonly status: string
    readonly error?: string
    readonly parts: readonly { readonly kind: string; readonly text?: string }[]
  }[]
}
const snapshot = async () => (await (await hub("")).json()) as Seen
/** The session as soon as it fulfils the condition. */
const sessionWhen = async (condition: (seen: Seen) => boolean, what: string): Promise<Seen> => {
  let seen = await snapshot()
  const isThere = async () => condition((seen = await snapshot()))
  await untilTrue(isThere, () => `${what}: ${JSON.stringify(seen)}`, LONG_MS)
  return seen
}
/** The session when no prompt is queued or running. */
const settled = () => sessionWhen(({ queue }) => queue.length === 0, "empty queue")
const configure = (config: unknown) =>
  hub("/config", { method: "POST", body: JSON.stringify({ config }) })

test("a failed turn is one sentence in the terminal, and the exit code of up is 1", async () => {
  model.on("refused", [httpError(400, { message: "this is not for you" })])
  terminal.type("@@refused@@\r")
  await terminal.seen(/✗ .*this is not for you[\s\S]*\n>$/)
  expect(terminal.text()).not.toMatch(/^\s+at /m)
  expect(await leave(terminal)).toBe(1)
})

test("a config that a client posts is kept by the next two starts of up; unknown keys are refused, and an MCP server that does not start is reported", async () => {
  terminal = await up()
  const refused = await configure({ instructons: ["Misspelt."] })
  expect(refused.status).toBe(400)
  expect(await refused.text()).toContain("instructons")
  const posted = await configure({
    instructions: ["Answer like a heron."],
    mcpServers: { absent: { type: "local", command: ["/nowhere/mcp-server"] } },
  })
  expect(posted.status).toBe(200)
  await terminal.seen(/✗ config: MCP servers do not start: absent \(/, LONG_MS)
  for (const round of ["first", "second"]) {
    expect(await leave(terminal)).toBe(0)
    terminal = await up()
    expect((await snapshot()).state["config"]).toMatchObject({
      instructions: ["Answer like a heron."],
      mcp: ["absent"],
    })
    model.on(round, [text(`The ${round} answer.`)])
    terminal.type(`@@${round}@@\r`)
    await terminal.seen(`The ${round} answer.`)
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("Answer like a heron.")
  }
  expect((await configure({ mcpServers: {} })).status).toBe(200)
})

test("a retry of the model is shown while it lasts, and no state of it is left after the turn", async () => {
  model.on("busy", [httpError(503, { message: "come back later" }), text("Now I answer.")])
  terminal.type("@@busy@@\r")
  await terminal.seen(/retry 1: .*come back later/)
  await terminal.seen("Now I answer.")
  const { state } = await settled()
  expect(Object.keys(state).filter((name) => name.startsWith("retry:"))).toEqual([])
})

test("an unknown model is one sentence with the names there are, and chat exits with 1", async () => {
  const chat = start(["chat", "-m", "nope/nope", "hello"])
  expect(await chat.exited).toBe(1)
  expect(chat.text()).toContain("nope/nope")
  expect(chat.text()).not.toMatch(/^\s+at /m)
})

test("a reader that ends early ends chat --json without a stack", async () => {
  model.on("piped", [text("word ".repeat(2000), { chunks: 200 })])
  const piped = startTerminal(
    ["bash", "-c", `"$0" chat --json @@piped@@ | head -1 | wc -l`, binary],
    {
      cwd: sandbox.workDir,
      env,
    },
  )
  open.push(piped)
  expect(await piped.exited).toBe(0)
  expect(piped.text().trim()).toBe("1")
})

test("a turn of OpenCode's own TUI is shown in the terminal, and a prompt typed there waits for its end", async () => {
  // A prompt of an earlier test may still run.
  await settled()
  const gate = Promise.withResolvers<void>()
  model.on("tui", [
    reply(text("First words of the TUI. "), waitFor(gate.promise), text("Last words of the TUI.")),
  ])
  model.on("mine", [text("The terminal's own answer.")])
  const db = new Database(join(sandbox.stateDir, "session/state.db"), { readonly: true })
  const row = db
    .query<{ session: string }, []>("SELECT session FROM channels WHERE key = 'web:default'")
    .get()
  db.close()
  const posted = await fetch(
    `http://127.0.0.1:${gateway}/opencode/session/${row?.session}/prompt_async`,
    {
      method: "POST",
      headers: {
        Authorization: `Basic ${btoa(`opencode:${PASSWORD}`)}`,
        "Content-Type": "application/json",
      },
      body: JSON.stringify({
        parts: [{ type: "text", text: "@@tui@@" }],
        model: { providerID: "openai-compatible", modelID: "m1" },
      }),
    },
  )
  expect(posted.ok).toBeTrue()
  const isShown = ({ messages }: Seen) =>
    messages.some(({ parts }) => parts.some((part) => part.text === "@@tui@@"))
  await sessionWhen(isShown, "the TUI's prompt in the hub")
  terminal.type("@@mine@@\r")
  await terminal.seen(/waiting for the agent, \d+ s/)
  expect(terminal.text()).not.toContain("The terminal's own answer.")
  gate.resolve()
  await terminal.seen(
    /First words of the TUI\. Last words of the TUI\.[\s\S]*The terminal's own answer\./,
  )
})

test("a model whose address cannot be reached is named with its address in the terminal, not called busy", async () => {
  const port = freePort()
  const away = {
    providerId: "away",
    displayName: "Away",
    baseUrl: `http://127.0.0.1:${port}/v1`,
    apiKey: "wrong-key",
    models: [{ id: "m1" }],
  }
  expect((await configure({ customProviders: [away] })).status).toBe(200)
  const chat = start(["chat", "-m", "away/m1", "hello"])
  await chat.seen(`away/m1: away at 127.0.0.1:${port} cannot be reached (`, LONG_MS)
  expect(chat.text()).not.toContain("busy")
  chat.type("\u0003")
  expect(await chat.exited).not.toBe(0)
  expect(chat.text()).not.toContain("wrong-key")
  expect((await configure({ customProviders: [] })).status).toBe(200)
})

test("the help of every command is its own page, an argument too many is called an argument, and doctor finds this directory healthy", async () => {
  const pages = new Map<string, string>()
  for (const command of ["up", "chat", "sessions", "forget", "doctor", "key", "files"]) {
    const help = start([command, "--help"])
    expect(await help.exited).toBe(0)
    pages.set(command, help.text())
    expect(help.text()).toStartWith(`sandpiper ${command}: `)
  }
  expect(new Set(pages.values()).size).toBe(pages.size)
  expect(pages.get("up")).toMatch(/--gateway-port .*default 9000\)/)
  for (const command of ["chat", "sessions", "forget", "key", "files"])
    expect(pages.get(command)).not.toContain("--runner-token")
  const extra = start(["sessions", "extra"])
  expect(await extra.exited).toBe(2)
  expect(extra.text()).toContain('unexpected argument "extra"')
  const doctor = start(["doctor"])
  await doctor.exited
  expect(doctor.text()).toMatch(/^ok +workspace .* is writable/m)
  expect(doctor.text()).not.toContain("/workspace:")
  expect(readdirSync(sandbox.workDir)).toEqual([])
})

test("half an answer never counts as done: the model's stream is cut, up is killed before the retry, and the next up cannot adopt OpenCode", async () => {
  const whole = Array.from({ length: 40 }, (_, at) => `word-${at} `).join("")
  const half = whole.slice(0, 120)
  // OpenCode waits two seconds after the cut and, if it asks again before up is killed, ten minutes.
  const busy = httpError(503, { message: "not yet", retryAfterSeconds: 600 })
  model.on("half", [reply(text(half, { chunks: 10 }), cut()), busy, text(whole)])
  terminal.type("@@half@@\r")
  await terminal.seen(/@@half@@[\s\S]*retry 1: /, LONG_MS)
  await terminal.kill()
  // Another setting of OpenCode's environment: the next runner ends the old process.
  terminal = await up({ AGENT_BASH_SECONDS: "100" })
  const { messages } = await settled()
  expect(messages.filter(({ status }) => status === "streaming")).toEqual([])
  const last = messages.findLast(({ role }) => role !== "user")
  const words = last?.parts.flatMap(({ kind, text: some = "" }) => (kind === "text" ? some : []))
  if (last?.status === "done") expect(words?.join("")).toBe(whole)
  else expect(last).toMatchObject({ status: "error", error: expect.stringMatching(/\w+ \w+/) })
  model.on("after", [text("The next answer is whole.")])
  terminal.type("@@after@@\r")
  await terminal.seen("The next answer is whole.", LONG_MS)
  expect(await leave(terminal)).toBe(0)
})

test("a run whose OpenCode port is taken says which process has it, starts no OpenCode, and works when the port is free", async () => {
  const agent = startTestSessionAgent({})
  const script = `const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("mine") })
    console.log(server.port)`
  const foreign = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" })
  const { value } = await foreign.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value).trim())
  const own = await createSandbox(agent)
  const run = startTerminal([binary, "run"], {
    cwd: own.workDir,
    env: { ...own.environment, OPENCODE_URL: `http://127.0.0.1:${port}`, LOG_LEVEL: "info" },
    cols: 300,
  })
  open.push(run)
  await run.seen(new RegExp(`port ${port} .*pid ${foreign.pid} `), LONG_MS)
  // The runner checks the port again and starts no OpenCode.
  expect(await killOpenCode(own)).toBe(0)
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine")
  foreign.kill()
  await foreign.exited
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  run.child.kill("SIGTERM")
  expect(await run.exited).toBe(0)
  await agent.stop()
  await own.remove()
})

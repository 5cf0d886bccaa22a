/**
 * `up` and `run` are killed with SIGKILL, with the compiled binary and the real OpenCode: what they leave ends after ORPHAN_SECONDS if
 * no other one comes. One that comes before takes OpenCode and the key broker over, and ends the rest.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SignJWT } from "jose"
import { WebSocket } from "ws"
import { signControlToken } from "../../src/lib/control-token.ts"
import { isAlive, type ProcessIdentity, readProcess } from "../../src/lib/process-identity.ts"
import { commandOf, descendantsOf, listProcesses } from "../../src/runner/host/processes.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { freePort } from "../kit/free-port.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent } from "../kit/session-agent.ts"
import { untilTrue } from "../kit/until-true.ts"

const JWT_SECRET = "a secret of the tests only"
let model: ScriptedModel
let sandbox: Sandbox
let gatewayPort = 0
const started: Bun.Subprocess[] = []
/** Programs that nothing but the test ends. */
const stay: ProcessIdentity[] = []
let client: TestClient | undefined

beforeAll(async () => {
  model = await startScriptedModel()
})
afterAll(() => model.stop())
beforeEach(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  gatewayPort = freePort()
})
afterEach(async () => {
  client?.close()
  for (const one of started.splice(0)) {
    one.kill("SIGTERM")
    await one.exited
  }
  for (const one of stay.splice(0)) if (isAlive(one)) process.kill(one.pid, "SIGKILL")
  await sandbox.remove()
})

const startUp = async (seconds: number): Promise<Bun.Subprocess> => {
  rmSync(join(sandbox.stateDir, "hub/address.json"), { force: true })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  const up = Bun.spawn([requireBinary(), "up"], {
    cwd: sandbox.workDir,
    env: {
      PATH,
      HOME,
      OPENCODE_BIN,
      SANDPIPER_STATE_DIR,
      JWT_SECRET,
      GATEWAY_PORT: String(gatewayPort),
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: model.apiKey,
      SANDPIPER_MODEL: "m1",
      SANDPIPER_TOOLS: "all",
      SANDPIPER_LOCAL_MODELS: "none",
      ORPHAN_SECONDS: String(seconds),
    },
    stdin: "pipe",
    stdout: Bun.file(join(sandbox.root, "up.out")),
    stderr: Bun.file(join(sandbox.root, "up.err")),
  })
  started.push(up)
  const address = join(sandbox.stateDir, "hub/address.json")
  await untilTrue(() => existsSync(address), "the address of the hub")
  const { url, token } = JSON.parse(readFileSync(address, "utf8")) as Record<string, string>
  client = await connectClient(url ?? "", token ?? "", { session: "local" })
  await client.until(() => statusOf() === "idle", "the agent", 100_000)
  return up
}
const statusOf = () => (client?.state("agent") as { status?: string } | undefined)?.status
const kill = async (one: Bun.Subprocess): Promise<void> => {
  one.kill("SIGKILL")
  await one.exited
}

const identityOf = (pid: number): ProcessIdentity => {
  const found = readProcess(pid)
  if (found === undefined) throw new Error(`${pid} does not run`)
  return found
}
/** The processes of a runner by a part of their command. */
const below = (one: Bun.Subprocess, part: string): readonly ProcessIdentity[] =>
  descendantsOf(one.pid, listProcesses()).filter(({ pid }) => commandOf(pid).includes(part))
const onlyBelow = (one: Bun.Subprocess, part: string): ProcessIdentity => {
  const [found, ...more] = below(one, part)
  if (found === undefined || more.length > 0) throw new Error(`not one process has ${part}`)
  return found
}
const gate = () => join(sandbox.root, "gate")
/** A program of this name says its pid and stays. */
const program = (name: string) => `echo $$ >${join(sandbox.root, name)}; exec sleep 600`
const quoted = (name: string) => `'${program(name)}'`
const programOf = async (name: string): Promise<ProcessIdentity> => {
  const file = join(sandbox.root, name)
  await untilTrue(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"), name)
  return identityOf(Number(readFileSync(file, "utf8")))
}
const areOver = (all: readonly ProcessIdentity[]) =>
  untilTrue(
    () => !all.some(isAlive),
    () =>
      `end of ${all
        .filter(isAlive)
        .map(({ pid }) => commandOf(pid))
        .join(", ")}`,
  )

/** A daemon of a tool's command, a service, and the command itself, which ends when the gate opens. */
const startPrograms = async (script: string): Promise<readonly ProcessIdentity[]> => {
  const daemon = `setsid sh -c ${quoted("daemon")} >/dev/null 2>&1 &`
  const service = `${requireBinary()} services start web -- sh -c ${JSON.stringify(quoted("service"))}`
  const waits = `echo $$ >${join(sandbox.root, "command")}; until [ -e ${gate()} ]; do sleep 0.1; done`
  model.on(script, [
    tool("bash", { command: `${daemon} ${service}; ${waits}`, description: "work" }),
    text("the command has ended"),
  ])
  await client?.ask({ type: "prompt", content: `@@${script}@@` })
  return Promise.all(["daemon", "service", "command"].map(programOf))
}

const gateway = () => `http://127.0.0.1:${gatewayPort}`
/** A program that a person has left in a terminal, and one that has left the terminal itself. */
const startInTerminal = async (): Promise<readonly [ProcessIdentity, ProcessIdentity]> => {
  const token = await new SignJWT({ sid: "local" })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("me")
    .setExpirationTime("5m")
    .sign(new TextEncoder().encode(JWT_SECRET))
  const page = await fetch(`${gateway()}/terminal/?token=${token}`, {
    redirect: "manual",
    headers: { accept: "text/html" },
  })
  const cookie = page.headers.get("set-cookie")?.split(";")[0] ?? ""
  const made = await fetch(`${gateway()}/terminal/new`, {
    method: "POST",
    body: "{}",
    headers: { cookie },
  })
  const { id } = (await made.json()) as { id: string }
  const socket = new WebSocket(`${gateway().replace("http", "ws")}/terminal/ws?id=${id}`, ["tty"], {
    headers: { cookie, origin: gateway() },
  })
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject))
  const typed = `nohup sh -c ${quoted("left")} & setsid sh -c ${quoted("gone")} &\r`
  socket.send(`0${typed}`)
  const left = await programOf("left")
  const gone = await programOf("gone")
  stay.push(gone)
  socket.terminate()
  return [left, gone]
}
/** A daemon of a program that was started over /v1. */
const startOverV1 = async (): Promise<ProcessIdentity> => {
  const now = Date.now()
  const token = await signControlToken({ key: JWT_SECRET, sessionId: "local", jti: "one", now })
  const response = await fetch(`${gateway()}/v1/processes`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({
      command: "sh",
      args: ["-c", `setsid sh -c ${quoted("v1")} & exec sleep 600`],
    }),
  })
  expect(response.status).toBe(200)
  return programOf("v1")
}

test("what an `up` that was killed has left ends after ORPHAN_SECONDS: OpenCode with all its descendants, the key broker, services and terminals", async () => {
  const up = await startUp(1)
  const programs = await startPrograms("killed")
  const [left, gone] = await startInTerminal()
  const parts = [onlyBelow(up, "opencode serve"), onlyBelow(up, "key-broker")]
  const watchdog = onlyBelow(up, "sandpiper watchdog")
  await kill(up)
  await areOver([...programs, left, ...parts, watchdog])
  // As after the usual end of `up`: a program with a session of its own, such as tmux, was meant to stay.
  expect(isAlive(gone)).toBe(true)
})

test("an `up` that comes in time takes over OpenCode and the key broker, ends the former watchdog and the rest, and has a watchdog itself", async () => {
  const up = await startUp(600)
  const [daemon] = await startPrograms("taken-over")
  const [left] = await startInTerminal()
  const v1 = await startOverV1()
  const kept = [onlyBelow(up, "opencode serve"), onlyBelow(up, "key-broker")]
  const watchdog = onlyBelow(up, "sandpiper watchdog")
  client?.close()
  await kill(up)
  // Its server ends with the pipe of the runner, and ends its programs.
  await areOver([v1])
  // The turn goes on, so the agent is idle when it has been stopped.
  model.on("next", [text("here again")])
  const next = startUp(600)
  await areOver([watchdog, left])
  writeFileSync(gate(), "")
  const upAgain = await next
  expect(kept.map(isAlive)).toEqual([true, true])
  expect(below(upAgain, "sandpiper watchdog")).toHaveLength(1)
  const asked = await client?.ask({
    type: "prompt",
    clientRequestId: "of the next client",
    content: "@@next@@",
  })
  await client?.until(
    () => client?.answerTo(String(asked?.["messageId"])) === "here again",
    "the answer of the OpenCode that was taken over",
    100_000,
  )
  expect(kept.map(isAlive)).toEqual([true, true])
  const ownWatchdog = onlyBelow(upAgain, "sandpiper watchdog")
  upAgain.kill("SIGTERM")
  await upAgain.exited
  await areOver([...kept, ownWatchdog, ...(daemon ? [daemon] : [])])
})

test("what a `run` that was killed has left ends after ORPHAN_SECONDS", async () => {
  const agent = startTestSessionAgent({ config: scriptedConfig(model) })
  try {
    const own = await createSandbox(agent)
    await sandbox.remove()
    sandbox = own
    const runner = Bun.spawn([requireBinary(), "run"], {
      cwd: sandbox.workDir,
      env: { ...sandbox.environment, ORPHAN_SECONDS: "1" },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    })
    started.push(runner)
    await agent.frame("agentStatus", ({ status }) => status === "idle")
    const parts = [onlyBelow(runner, "opencode serve"), onlyBelow(runner, "key-broker")]
    await kill(runner)
    await areOver(parts)
  } finally {
    await agent.stop()
  }
})

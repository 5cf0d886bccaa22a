/**
 * Snapshots for real: the same processes under another boot id or after being frozen, and a copy of the file system on
 * another machine.
 */
import { afterEach, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, cp, lstat, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { SignJWT } from "jose"
import { type Booted, boot, programsOf } from "../kit/boot.ts"
import { listenerOf } from "../../src/runner/host/processes.ts"
import { freePort } from "../kit/free-port.ts"
import { startGitServer } from "../kit/git-server.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const FIRST_TOKEN = "the-token-of-the-first-life"
const FRESH_TOKEN = "the-token-of-the-second-life"
const FIRST_KEY = "a secret of the tests only"
const FRESH_KEY = "a secret of the second life"
let model: ScriptedModel
let agent: TestSessionAgent
let sandbox: Sandbox
let booted: Booted
let accepted: string
/** Cleanup functions of what a test has started; they run even if it fails. */
let more: (() => unknown)[] = []

const prepare = async () => {
  accepted = FIRST_TOKEN
  model = await startScriptedModel()
  agent = startTestSessionAgent({
    config: scriptedConfig(model),
    token: FIRST_TOKEN,
    accepts: (token) => token === accepted,
  })
  sandbox = await createSandbox(agent)
}

const start = async (env: Record<string, string> = {}) => {
  const from = agent.frames.length
  booted = boot(sandbox, { env })
  await agent.until(
    () =>
      agent.frames.slice(from).some((one) => one.type === "agentStatus" && one.status === "idle"),
    "agent that is ready",
  )
}

afterEach(async () => {
  if (booted.child.exitCode === null) await booted.stop()
  for (const end of more) await end()
  more = []
  await agent.stop()
  await model.stop()
  await sandbox.remove()
})

/** Changes the boot id in the runner's mount namespace only. */
const otherBoot = async (name: string) => {
  const file = join(sandbox.root, `boot-id-${name}`)
  await writeFile(file, `${crypto.randomUUID()}\n`)
  await booted.inside("mount", "--bind", file, "/proc/sys/kernel/random/boot_id")
}

const writeSecrets = async (lines: readonly string[]): Promise<string> => {
  const file = join(sandbox.root, "runner-secrets")
  await writeFile(file, lines.join("\n"), { mode: 0o600 })
  return file
}

/** The environment of the running OpenCode process, as one text. */
const environmentOfAgent = () =>
  booted.inside("sh", "-c", "cat /proc/$(pgrep -of 'opencode serve')/environ | tr '\\0' '\\n'")

const tokenOf = (key: string): Promise<string> =>
  new SignJWT({ sid: "test-session" })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("the test")
    .setExpirationTime("5m")
    .sign(new TextEncoder().encode(key))

/** The gateway's response to a token that is signed with this key. */
const personWith = async (key: string): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${await booted.port()}/metrics`, {
    headers: { authorization: `Bearer ${await tokenOf(key)}` },
  })
  return answer.status
}

const prompt = async (id: string, content = `@@${id}@@`) => {
  agent.say({ type: "prompt", messageId: id, content })
  await completed(id)
}
const completed = (id: string) => agent.frame("complete", ({ messageId }) => messageId === id)
const running = (id: string) =>
  agent.frame(
    "message.part.tool-update",
    ({ status, messageId }) => status === "running" && messageId === id,
  )

/** The reply to a prompt, assembled from its frames. */
const answerOf = (id: string): string =>
  agent.frames
    .flatMap((frame) =>
      frame.type === "message.part.text-delta" && frame.messageId === id ? [frame.delta] : [],
    )
    .join("")

const ends = (id: string) =>
  agent.frames.flatMap((frame) =>
    frame.type === "message.finalize" && frame.messageId === id ? [frame.reason] : [],
  )

/** A command that ends when `release` is called. */
const held = (name: string) => {
  const file = join(sandbox.root, `release-${name}`)
  return {
    command: tool("bash", {
      command: `until [ -e ${file} ]; do sleep 0.1; done`,
      description: "takes a while",
    }),
    release: () => writeFile(file, ""),
  }
}

const sleeps = (seconds: number) =>
  tool("bash", { command: `sleep ${seconds}`, description: "takes a while" })

test("after a restore during a turn the runner reconnects with fresh secrets and loses and repeats nothing", async () => {
  await prepare()
  const server = await startGitServer("git-token-of-the-second-life")
  more.push(server.stop)
  await server.commit("project", "README.md", "first\n")
  const file = await writeSecrets([`RUNNER_TOKEN=${FIRST_TOKEN}`, "GITHUB_TOKEN=git-token-of-old"])
  const { RUNNER_TOKEN: _inTheFile, ...environment } = sandbox.environment
  sandbox = { ...sandbox, environment }
  await start({ RUNNER_SECRETS_FILE: file, REPO_URL: server.url("project") })

  model.on("before", [
    tool("register_tunnel", { name: "web", port: 3000 }),
    text("The word is heron."),
  ])
  await prompt("before")
  const during = held("during")
  model.on("during", [during.command, text("Still here.")])
  agent.say({ type: "prompt", messageId: "during", content: "@@during@@" })
  await running("during")

  expect([await personWith(FIRST_KEY), await personWith(FRESH_KEY)]).toEqual([200, 401])
  await writeSecrets([
    `RUNNER_TOKEN=${FRESH_TOKEN}`,
    `JWT_SECRET=${FRESH_KEY}`,
    "GITHUB_TOKEN=git-token-of-the-second-life",
  ])
  accepted = FRESH_TOKEN
  const from = agent.frames.length
  await otherBoot("second")
  await agent.until(() => agent.hellos.length === 2, "second hello")
  const [first, second] = agent.hellos
  expect(second?.epoch).toBe(first?.epoch ?? "")
  expect(second?.active).toMatchObject([{ messageId: "during", channelKey: "web:default" }])
  expect(second?.active[0]?.opencodeSessionId).toBeString()
  const { tunnels } = await agent.frame("tunnels", () => true, from)
  expect(tunnels).toMatchObject([{ name: "web", port: 3000 }])

  expect([await personWith(FIRST_KEY), await personWith(FRESH_KEY)]).toEqual([401, 200])

  await during.release()
  await completed("during")
  expect(answerOf("during")).toBe("Still here.")
  model.on("after", [text("It was heron.")])
  await prompt("after")
  expect(answerOf("after")).toBe("It was heron.")
  const said = JSON.stringify(model.requests.at(-1)?.messages)
  for (const words of ["@@before@@", "The word is heron.", "@@during@@", "Still here."]) {
    expect(said).toContain(words)
  }
  for (const id of ["before", "during", "after"]) expect(ends(id)).toEqual(["end_turn"])
  expect(agent.problems).toEqual([])
  expect(agent.hellos).toHaveLength(2)

  // git uses the fresh token: the repository that the old one could not clone is there and accepts a push.
  model.on("push", [
    tool("bash", {
      command: `cd ${sandbox.workDir}/project && git commit -q --allow-empty -m more && git push -q && echo PUSHED`,
      description: "pushes",
    }),
    text("done"),
  ])
  await booted.until(() => existsSync(join(sandbox.workDir, "project/.git")), "clone")
  await prompt("push")
  const pushed = agent.frames.findLast(
    (frame) => frame.type === "message.part.tool-update" && frame.status === "completed",
  )
  expect(JSON.stringify(pushed)).toContain("PUSHED")
  const log = await booted.log()
  expect(log).toContain('"host.restored","component":"host","why":"the kernel was rebooted"')
  expect(log).not.toContain(FRESH_TOKEN)
})

test("a new JWT key after a restore invalidates old cookies while a waiting tool call still gets its response", async () => {
  await prepare()
  const app = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: (request, server) => {
      if (server.upgrade(request)) return undefined
      return new Response(
        new ReadableStream({ start: (controller) => controller.enqueue("data: first\n\n") }),
      )
    },
    websocket: { message: (socket, said) => void socket.send(said) },
  })
  more.push(() => app.stop(true))
  const file = await writeSecrets([`JWT_SECRET=${FIRST_KEY}`])
  const { JWT_SECRET: _inTheFile, ...environment } = sandbox.environment
  sandbox = { ...sandbox, environment }
  await start({ RUNNER_SECRETS_FILE: file })
  model.on("tunnel", [tool("register_tunnel", { name: "web", port: app.port }), text("done")])
  await prompt("tunnel")
  const gateway = `127.0.0.1:${await booted.port()}`
  const enter = async (key: string) => {
    const address = `http://${gateway}/t/web/?token=${await tokenOf(key)}`
    const answer = await fetch(address, { redirect: "manual", headers: { accept: "text/html" } })
    return answer.headers.get("set-cookie")?.split(";")[0] ?? ""
  }
  const open = async (cookie: string) => {
    const socket = new WebSocket(`ws://${gateway}/t/web/ws`, { headers: { cookie } })
    more.push(() => socket.close())
    await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }))
    return socket
  }
  const cookie = await enter(FIRST_KEY)
  const socket = await open(cookie)
  const closed = new Promise((resolve) =>
    socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason })),
  )
  const page = await fetch(`http://${gateway}/t/web/`, { headers: { cookie } })
  const stream = page.body?.getReader()
  await stream?.read()

  model.on("asks", [tool("list_sessions", {}), text("Nobody.")])
  agent.say({ type: "prompt", messageId: "asks", content: "@@asks@@" })
  const { requestId } = await agent.frame("list-child-sessions")
  await writeSecrets([`JWT_SECRET=${FRESH_KEY}`])
  await otherBoot("second")

  expect(await closed).toEqual({ code: 1012, reason: "the sandbox was restored: connect again" })
  expect(await stream?.read().catch(() => "cut")).toBe("cut")
  const old = await fetch(`http://${gateway}/t/web/`, { headers: { cookie } })
  expect(old.status).toBe(401)
  const again = await open(await enter(FRESH_KEY))
  const echoed = new Promise((resolve) =>
    again.addEventListener("message", resolve, { once: true }),
  )
  await agent.until(() => agent.hellos.length === 2, "second hello")
  again.send("still here")
  expect(await echoed).toMatchObject({ data: "still here" })

  agent.say({ type: "list-child-sessions-result", requestId, children: [] })
  await completed("asks")
  expect(answerOf("asks")).toBe("Nobody.")
  const called = agent.frames.flatMap((frame) =>
    frame.type === "message.part.tool-update" && frame.messageId === "asks" ? [frame.status] : [],
  )
  expect(called.at(-1)).toBe("completed")
})

test("a secrets file that cannot be used is logged and the runner keeps its secrets", async () => {
  await prepare()
  const file = await writeSecrets([`RUNNER_TOKEN=${FIRST_TOKEN}`])
  await start({ RUNNER_SECRETS_FILE: file })
  await chmod(file, 0o644)
  await otherBoot("second")
  await agent.until(() => agent.hellos.length === 2, "second hello")
  expect(await booted.log()).toContain("chmod 600")
  await prompt("after")
})

test("after hibernation and a restore the runner ends stale listeners, restarts its services and handles waiting frames", async () => {
  await prepare()
  const port = freePort()
  const programs = programsOf(sandbox)
  // A stand-in for ttyd: listens on the socket after -i, or without arguments on a port.
  const listen = (where: string) =>
    `exec ${process.execPath} -e 'Bun.listen({ ${where}, socket: { data() {} } })'`
  const onPort = listen(`hostname: "127.0.0.1", port: ${port}`)
  const script = `#!/bin/sh\n[ $# -eq 0 ] && ${onPort}\nwhile [ "$1" != -i ]; do shift; done\nrm -f "$2"; AT="$2"; export AT; ${listen("unix: process.env.AT")}\n`
  await writeFile(join(programs, "ttyd"), script, { mode: 0o755 })
  await start({ SANDPIPER_SERVICES: "ttyd", TTYD_PORT: String(port) })
  const service = async () => (await booted.ready()).parts["ttyd"]?.state
  await booted.until(async () => (await service()) === "ready", "terminal")
  model.on("before", [text("The word is plover.")])
  await prompt("before")

  await booted.inside("sandpiper", "hook", "pre-snapshot")
  expect(await service()).toBe("off")
  // A process of this runner's services that the runner does not supervise, as a memory snapshot may contain.
  const enter = ["nsenter", "--target", String(booted.pid()), "--pid", "--mount"]
  const stale = Bun.spawn(
    [...enter, "env", `SANDPIPER_SERVICE_OF=${sandbox.stateDir}`, join(programs, "ttyd")],
    { stdout: "ignore", stderr: "ignore" },
  )
  more.push(() => stale.kill("SIGKILL"))
  await booted.until(() => listenerOf(port), "stale listener")
  model.on("while", [text("It was plover.")])
  agent.say({ type: "prompt", messageId: "while", content: "@@while@@" })
  await otherBoot("second")
  await agent.until(() => agent.hellos.length === 2, "second hello")
  await completed("while")
  expect(await stale.exited).not.toBe(0)
  await booted.until(async () => (await service()) === "ready", "terminal")
  expect(answerOf("while")).toBe("It was plover.")
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("The word is plover.")
  expect(ends("while")).toEqual(["end_turn"])
  expect(await booted.log()).toContain("services.stale-ended")
})

test("after being frozen the runner reconnects, and frames of both sides arrive once", async () => {
  await prepare()
  await start()
  const long = held("long")
  model.on("long", [long.command, text("Said while nobody listened.")])
  agent.say({ type: "prompt", messageId: "long", content: "@@long@@" })
  await running("long")
  const pid = booted.pid()
  process.kill(pid, "SIGSTOP")
  more.push(() => {
    // A stopped process reacts only to SIGCONT.
    if (existsSync(`/proc/${pid}`)) process.kill(pid, "SIGCONT")
  })
  await long.release()
  model.on("next", [text("And the next.")])
  agent.say({ type: "prompt", messageId: "next", content: "@@next@@" })
  // Sleep: a process is taken for restored after 30 s without a turn of its event loop, counted from a check every 5 s.
  await Bun.sleep(36_000)
  process.kill(pid, "SIGCONT")
  await agent.until(() => agent.hellos.length === 2, "second hello")
  await completed("next")
  const [, seconds] = /"why":"the runner was frozen for (\d+) s"/.exec(await booted.log()) ?? []
  expect(Number(seconds)).toBeGreaterThanOrEqual(30)
  expect(answerOf("long")).toBe("Said while nobody listened.")
  expect(answerOf("next")).toBe("And the next.")
  expect([ends("long"), ends("next")]).toEqual([["end_turn"], ["end_turn"]])
  expect(new Set(agent.hellos.map(({ epoch }) => epoch)).size).toBe(1)
  expect(agent.problems).toEqual([])
}, 120_000)

test("a copy of the file system from during a turn boots as the same runner, ends the turn once, contains no keys and continues the conversation", async () => {
  await prepare()
  const secrets = {
    OPENCODE_SERVER_PASSWORD: "the-password-of-the-operator",
    GITHUB_TOKEN: "ghp_the-token-of-the-copy",
    JWT_SECRET: "the-key-of-the-copied-gateway",
  }
  await start(secrets)
  const apiToken = /SANDPIPER_API_TOKEN=(\S+)/.exec(await environmentOfAgent())?.[1] ?? ""
  expect(apiToken).not.toBe("")
  model.on("before", [text("The word is dunlin.")])
  await prompt("before")
  model.on("long", [sleeps(300), text("never said")])
  agent.say({ type: "prompt", messageId: "long", content: "@@long@@" })
  await running("long")
  const report = JSON.parse(await booted.inside("sandpiper", "hook", "pre-snapshot"))
  expect(report).toMatchObject({ turns: "ended", flushed: true })
  expect(ends("long")).toEqual(["canceled"])

  const copy = `${sandbox.root}-copy`
  more.push(() => rm(copy, { recursive: true, force: true }))
  await cp(sandbox.root, copy, {
    recursive: true,
    preserveTimestamps: true,
    // The file of a socket is nothing without the process that listens on it.
    filter: async (path) => !(await lstat(path)).isSocket(),
  })
  for (const secret of [model.apiKey, FIRST_TOKEN, apiToken, ...Object.values(secrets)]) {
    const found = Bun.spawnSync(["grep", "-rlF", secret, copy]).stdout.toString()
    expect({ secret, found }).toEqual({ secret, found: "" })
  }
  // The original machine disappears without a shutdown.
  booted.child.kill("SIGKILL")
  await booted.child.exited
  await rm(sandbox.root, { recursive: true, force: true })
  await rename(copy, sandbox.root)

  accepted = FRESH_TOKEN
  sandbox = { ...sandbox, environment: { ...sandbox.environment, RUNNER_TOKEN: FRESH_TOKEN } }
  await start()
  model.on("after", [text("It was dunlin.")])
  await prompt("after")
  expect(answerOf("after")).toBe("It was dunlin.")
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("The word is dunlin.")
  expect(ends("long")).toEqual(["canceled"])
  expect(agent.frames.filter(({ type }) => type === "message.finalize")).toHaveLength(3)
  expect(new Set(agent.hellos.map(({ epoch }) => epoch)).size).toBe(1)
  expect(agent.hellos.at(-1)?.active).toEqual([])
  expect(await booted.log()).toContain("host.restored")
})

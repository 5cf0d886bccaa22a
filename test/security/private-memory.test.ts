/**
 * An agent without a user of its own: a process of the runner's user tries to read the memory of the runner and of its key
 * broker, the keys in the runner's files, and the keys on their way to the broker. The tests share one runner, which is awake and has
 * its broker's socket after each.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { createSandbox, giveSandboxTo, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { untilTrue } from "../kit/until-true.ts"

const binary = requireBinary()
const NOBODY = 65_534
/** The runner is not root here: root could read everything. */
const asUser =
  process.getuid?.() === 0
    ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--"]
    : []
/** Of the configuration that the session agent sends. */
const keys = {
  provider: "sk-of-the-session-agent",
  custom: "sk-of-a-custom-provider",
  mcp: "header-of-an-mcp-server",
}
let sandbox: Sandbox
let agent: TestSessionAgent
let runner: Bun.Subprocess
let plain: Bun.Subprocess

beforeAll(async () => {
  agent = startTestSessionAgent({
    config: {
      providerKeys: { openrouter: keys.provider },
      customProviders: [
        {
          providerId: "own",
          displayName: "Own",
          baseUrl: "http://127.0.0.1:1/v1",
          apiKey: keys.custom,
          models: [{ id: "m" }],
        },
      ],
      mcpServers: {
        far: { type: "remote", url: "http://127.0.0.1:1/", headers: { "x-key": keys.mcp } },
      },
    },
  })
  sandbox = await createSandbox(agent)
  await mkdir(sandbox.stateDir)
  const programs = join(sandbox.root, "programs")
  await mkdir(programs)
  await writeFile(join(programs, "sync"), `#!/bin/sh\nenv > ${sandbox.root}/env-of-sync\n`)
  await chmod(join(programs, "sync"), 0o755)
  sandbox.environment["PATH"] = `${programs}:${sandbox.environment["PATH"]}`
  if (asUser.length > 0) await giveSandboxTo(sandbox, NOBODY)
  const env = { ...sandbox.environment, ANTHROPIC_API_KEY: "sk-of-the-tests" }
  runner = Bun.spawn([...asUser, binary, "run"], { env, stdout: "ignore", stderr: "ignore" })
  plain = Bun.spawn([...asUser, "sleep", "600"], { env, stdout: "ignore", stderr: "ignore" })
})
afterAll(async () => {
  for (const child of [runner, plain]) {
    child.kill("SIGTERM")
    await child.exited
  }
  await agent.stop()
  await sandbox.remove()
})

/** Reads as the same user. The memory is opened and not read: the kernel checks the right when it is opened. */
const read = async (pid: number): Promise<string> => {
  const script = `cat /proc/${pid}/environ; exec 3< /proc/${pid}/mem && echo opened`
  const child = Bun.spawn([...asUser, "sh", "-c", script], { stdout: "pipe", stderr: "ignore" })
  await child.exited
  return new Response(child.stdout).text()
}

const brokerPid = (): number | undefined =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((pid) => {
      try {
        const isChild = new RegExp(`^PPid:\\s*${runner.pid}$`, "m")
        return (
          readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("key-broker") &&
          isChild.test(readFileSync(`/proc/${pid}/status`, "utf8"))
        )
      } catch {
        return false
      }
    })

test("a process of the runner's user reads neither the memory nor the environment of the runner and of its key broker", async () => {
  await untilTrue(() => brokerPid() !== undefined, "key broker")
  // Any other process of that user is open to it, so the refusals below are the runner's own.
  expect(await read(plain.pid)).toContain("opened")
  expect(await read(plain.pid)).toContain("sk-of-the-tests")
  await untilTrue(async () => (await read(brokerPid() ?? 0)) === "", "closed broker")
  expect(await read(runner.pid)).toBe("")
})

test("the files of the runner have no key of the configuration in clear text", async () => {
  await agent.frame("opencode-config-applied", ({ success }) => success)
  const script = `find ${sandbox.root} -type f -size -20M -exec cat {} +`
  const child = Bun.spawn([...asUser, "sh", "-c", script], { stdout: "pipe", stderr: "ignore" })
  const found = await new Response(child.stdout).text()
  // What it reads includes the runner's database.
  expect(found).toContain("agent.runtime")
  for (const key of [...Object.values(keys), "sk-of-the-tests", agent.token])
    expect([key, found.includes(key)]).toEqual([key, false])
})

test("a listener that a process of the runner's user puts in the place of the broker's socket receives no key", async () => {
  await agent.frame("opencode-config-applied", ({ success }) => success)
  const socket = join(sandbox.stateDir, "session/broker.sock")
  await untilTrue(() => existsSync(socket), "socket of the broker")
  await rename(socket, `${socket}.of-the-broker`)
  const received: string[] = []
  const listener = Bun.serve({
    unix: socket,
    fetch: async (request) => {
      received.push(await request.text())
      return Response.json({ version: "any" })
    },
  })
  await chmod(socket, 0o777)
  try {
    await untilTrue(() => received.some((text) => text !== ""), "an order of the runner")
    for (const key of [...Object.values(keys), "sk-of-the-tests"])
      expect([key, received.join("").includes(key)]).toEqual([key, false])
  } finally {
    await listener.stop(true)
    await rename(`${socket}.of-the-broker`, socket)
  }
})

test("the program that writes the disk before a snapshot has no secret of the runner in its environment", async () => {
  await agent.frame("opencode-config-applied", ({ success }) => success)
  const call = (hook: string) => {
    const command = [...asUser, binary, "hook", hook, "--state-dir", sandbox.stateDir]
    return Bun.spawnSync(command, { env: sandbox.environment }).exitCode
  }
  try {
    expect(call("pre-snapshot")).toBe(0)
  } finally {
    // The secrets that the hook has taken from the disk are on it again when this one has ended.
    expect(call("post-snapshot")).toBe(0)
  }
  const environment = await readFile(join(sandbox.root, "env-of-sync"), "utf8")
  expect(environment).toContain("PATH=")
  for (const secret of ["sk-of-the-tests", agent.token, "a secret of the tests only"])
    expect([secret, environment.includes(secret)]).toEqual([secret, false])
})

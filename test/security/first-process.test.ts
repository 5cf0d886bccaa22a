/**
 * A runner that is the first process of its sandbox, with an agent of the same user, as in an isolated local sandbox. The agent
 * could kill a broker process and read the memory of the next one before that is closed, so there is no such process.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readFile } from "node:fs/promises"
import { z } from "zod"
import { agentDirectories } from "../../src/runner/opencode/config/config-directories.ts"
import { requireRoot } from "../kit/boot.ts"
import { createSandbox, giveSandboxTo, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const binary = requireBinary()
const NOBODY = 65_534
const inNamespace = ["unshare", "--fork", "--pid", "--mount-proc"]
const asNobody = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--"]
const KEY = "sk-of-a-custom-provider"
const keys: (string | null)[] = []
let provider: ReturnType<typeof Bun.serve>
let sandbox: Sandbox
let agent: TestSessionAgent
let namespace: Bun.Subprocess

beforeAll(async () => {
  requireRoot()
  provider = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      keys.push(request.headers.get("authorization"))
      return Response.json({ ok: true })
    },
  })
  agent = startTestSessionAgent({
    config: {
      customProviders: [
        {
          providerId: "own",
          displayName: "Own",
          baseUrl: provider.url.origin,
          apiKey: KEY,
          models: [{ id: "m" }],
        },
      ],
    },
  })
  sandbox = await createSandbox(agent)
  await mkdir(sandbox.stateDir)
  await giveSandboxTo(sandbox, NOBODY)
  namespace = Bun.spawn([...inNamespace, ...asNobody, binary, "run"], {
    env: sandbox.environment,
    stdout: "ignore",
    stderr: "ignore",
  })
})
afterAll(async () => {
  // The end of the first process ends the namespace. It has changed its user, so it does not end with `unshare`.
  if (namespace) process.kill(Number(runnerPid()), "SIGKILL")
  await namespace?.exited
  await agent?.stop()
  await provider?.stop(true)
  await sandbox?.remove()
})

test("a runner that is the first process of its sandbox adds the keys itself and starts no broker process", async () => {
  await agent.frame("opencode-config-applied", ({ success }) => success)
  const { authFile, configFile } = agentDirectories(sandbox.stateDir)
  const auth = z
    .object({ own: z.object({ key: z.string() }) })
    .parse(JSON.parse(await readFile(authFile, "utf8")))
  const [url = ""] = /http:\/\/127\.0\.0\.1:\d+\/own/.exec(await readFile(configFile, "utf8")) ?? []
  const answer = await fetch(`${url}/chat/completions`, {
    method: "POST",
    body: "{}",
    headers: { authorization: `Bearer ${auth.own.key}` },
  })
  expect(answer.status).toBe(200)
  expect(keys).toEqual([`Bearer ${KEY}`])
  const list = Bun.spawnSync(["ps", "-o", "args", "--ppid", runnerPid()]).stdout.toString()
  expect(list).toContain("opencode")
  expect(list).not.toContain("key-broker")
})

const runnerPid = (): string =>
  Bun.spawnSync(["pgrep", "-P", String(namespace.pid)])
    .stdout.toString()
    .trim()

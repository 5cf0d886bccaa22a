/** start.sh as PID 1 of the sandbox: orphans, signals, exit codes, secrets in the environment. */
import { afterEach, describe, expect, test } from "bun:test"
import { type Booted, boot } from "../kit/boot.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { freezeOpenCode } from "../kit/opencode-processes.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

/** Unique to this run: other tests on this machine start `sleep` too. */
const LONG = `sleep 300.${process.pid}`
/** A container runtime kills after this time. */
const STOP_MS = 10_000
let model: ScriptedModel | undefined
let agent: TestSessionAgent
let sandbox: Sandbox
let booted: Booted | undefined

const start = async (as: "pid1" | "plain", env: Record<string, string> = {}): Promise<Booted> => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({
    config: scriptedConfig(model),
    token: "a-token-that-nobody-shows",
  })
  sandbox = await createSandbox(agent)
  const running = boot(sandbox, { as, env })
  booted = running
  await agent.until(
    () => agent.frames.some((frame) => frame.type === "agentStatus" && frame.status === "idle"),
    "agent that is ready",
  )
  return running
}

/** Waits until a turn runs whose tool does not end by itself. */
const startInTurn = async (as: "pid1" | "plain"): Promise<Booted> => {
  const running = await start(as)
  model?.on("long", [
    tool("bash", { command: LONG, description: "takes its time" }),
    text("never said"),
  ])
  agent.say({ type: "prompt", messageId: "p1", content: "@@long@@" })
  await agent.frame("message.part.tool-update", ({ status }) => status === "running")
  return running
}

afterEach(async () => {
  // SIGTERM, because a killed runner leaves OpenCode running for the next one, and here there is none.
  if (booted?.child.exitCode === null) await booted.stop()
  await agent.stop()
  await model?.stop()
  model = undefined
  await sandbox.remove()
})

/** The turn has exactly one end, a cancellation, and its processes are gone. */
const expectCanceled = async () => {
  await agent.frame("complete", ({ messageId }) => messageId === "p1")
  const ends = agent.frames.filter(({ type }) => type === "message.finalize")
  expect(ends).toMatchObject([{ reason: "canceled", messageId: "p1" }])
  expect(Bun.spawnSync(["pgrep", "-fx", LONG]).stdout.toString()).toBe("")
}

const zombies = async ({ inside }: Booted): Promise<number> =>
  (await inside("ps", "-eo", "stat=")).split("\n").filter((line) => line.startsWith("Z")).length

describe.each(["pid1", "plain"] as const)("start.sh as %s", (as) => {
  test("200 orphans are reaped and the agent's shell gets the exit codes of its 200 children", async () => {
    const running = await start(as)
    // The agent's shell creates orphans and at the same time waits for children of its own.
    model?.on("orphans", [
      tool("bash", {
        command:
          "for i in $(seq 200); do (setsid sh -c 'exec true' &) ; done; for i in $(seq 200); do (exit $((i % 200))); test $? = $((i % 200)) || echo WRONG; done; echo done",
        description: "makes orphans",
      }),
      text("made"),
    ])
    agent.say({ type: "prompt", messageId: "p1", content: "@@orphans@@" })
    const { result } = await agent.frame(
      "message.part.tool-update",
      ({ status }) => status === "completed",
    )
    expect(String(result)).toContain("done")
    expect(String(result)).not.toContain("WRONG")
    await agent.frame("complete")
    await running.until(async () => (await childZombies(running.pid())) === 0, "end of zombies")
    if (as === "pid1") expect(await zombies(running)).toBe(0)
  })

  test("SIGTERM during a turn cancels it, reports that to the session agent and exits with 0 in time", async () => {
    const running = await startInTurn(as)
    const { code, ms } = await running.stop()
    expect(code).toBe(0)
    expect(ms).toBeLessThan(STOP_MS)
    await expectCanceled()
  })

  test("SIGTERM cancels a turn in time even if OpenCode hangs", async () => {
    const running = await startInTurn(as)
    await freezeOpenCode(sandbox)
    const { code, ms } = await running.stop()
    expect(code).toBe(0)
    expect(ms).toBeLessThan(STOP_MS)
    await expectCanceled()
  })
})

test("no secret is in the environment of PID 1, on a command line or in a log", async () => {
  const secrets = {
    GITHUB_TOKEN: "ghp_the-token-of-the-test",
    PARALLEL_API_KEY: "sk-ant-the-key-of-the-test",
    OPENCODE_SERVER_PASSWORD: "the password of the test",
    REPO_URL: "https://somebody:pass-in-the-address@127.0.0.1:1/x.git",
  }
  const running = await start("pid1", secrets)
  const environ = await Bun.file(`/proc/${running.pid()}/environ`).text()
  const commands = await running.inside("ps", "-eo", "args=")
  const log = await running.log()
  for (const secret of [
    "a-token-that-nobody-shows",
    "a secret of the tests only",
    "ghp_the-token-of-the-test",
    "sk-ant-the-key-of-the-test",
    "the password of the test",
    "pass-in-the-address",
  ]) {
    expect({ secret, in: "environ", shown: environ.includes(secret) }).toMatchObject({
      shown: false,
    })
    expect({ secret, in: "ps", shown: commands.includes(secret) }).toMatchObject({ shown: false })
    expect({ secret, in: "log", shown: log.includes(secret) }).toMatchObject({ shown: false })
  }
  expect(environ).toContain("WORK_DIR=")
  const { code } = await running.stop()
  expect(code).toBe(0)
})

test("a missing setting ends the boot with code 2 and is named", async () => {
  agent = startTestSessionAgent()
  sandbox = await createSandbox(agent)
  const { RUNNER_TOKEN: _left, ...environment } = sandbox.environment
  const running = boot({ ...sandbox, environment }, { as: "pid1" })
  booted = running
  expect(await running.child.exited).toBe(2)
  expect(await running.log()).toContain("RUNNER_TOKEN")
})

const childZombies = async (pid: number): Promise<number> => {
  const found = Bun.spawnSync(["ps", "--ppid", String(pid), "-o", "stat="]).stdout.toString()
  return found.split("\n").filter((line) => line.startsWith("Z")).length
}

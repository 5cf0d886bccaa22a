/** A runner that is killed or stopped during a workflow: one result, no repeated steps, no processes left. */
import { afterEach, expect, test } from "bun:test"
import { type Booted, boot } from "../kit/boot.ts"
import { type ScriptedModel, hang, startScriptedModel } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

let model: ScriptedModel
let agent: TestSessionAgent
let sandbox: Sandbox
let booted: Booted

const idle = (from: number) =>
  agent.until(
    () =>
      agent.frames.slice(from).some((one) => one.type === "agentStatus" && one.status === "idle"),
    "agent that is ready",
  )

const start = async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  sandbox = await createSandbox(agent)
  booted = boot(sandbox, { as: "plain" })
  await idle(0)
  model.on("endless", [hang()])
  const steps = [
    { type: "bash", id: "first", command: "echo once >> done.log" },
    { type: "agent", id: "second", goal: "@@endless@@" },
    { type: "bash", id: "third", command: "echo never >> done.log" },
  ]
  agent.say({ type: "workflow-execute", executionId: "e1", payload: payload(steps) })
  await agent.until(
    () => model.requests.some(({ messages }) => JSON.stringify(messages).includes("@@endless@@")),
    "turn",
  )
  return steps
}

const payload = (steps: readonly unknown[]) =>
  ({ kind: "run", executionId: "e1", payload: { workflow: { steps } } }) as const
const answers = () => agent.frames.filter(({ type }) => type === "workflow-execution-result")
const done = () => Bun.file(`${sandbox.workDir}/done.log`).text()

afterEach(async () => {
  if (booted.child.exitCode === null) await booted.stop()
  await agent.stop()
  await model.stop()
  await sandbox.remove()
})

test("after a kill during a workflow the next runner reports failure once and a repeated order runs nothing", async () => {
  const steps = await start()
  process.kill(booted.pid(), "SIGKILL")
  await booted.child.exited
  const from = agent.frames.length
  booted = boot(sandbox, { as: "plain" })
  await idle(from)
  await agent.until(() => answers().length > 0, "answer")
  expect(answers()).toMatchObject([
    {
      executionId: "e1",
      envelope: {
        ok: false,
        status: "failed",
        steps: [
          { stepId: "first", status: "completed" },
          { stepId: "second", status: "failed" },
        ],
      },
    },
  ])
  // The workflow's turn in OpenCode has ended too.
  await agent.frame("complete", ({ channelType }) => channelType === "workflow")
  agent.say({ type: "workflow-execute", executionId: "e1", payload: payload(steps) })
  await agent.until(() => answers().length > 1, "answer")
  expect(answers()[1]).toMatchObject({ envelope: { status: "failed" } })
  expect(await done()).toBe("once\n")
  expect(agent.problems).toEqual([])
})

test("a stopped runner cancels its workflow and sends the result before it exits", async () => {
  await start()
  const { code, ms } = await booted.stop()
  expect(code).toBe(0)
  expect(ms).toBeLessThan(10_000)
  expect(answers()).toMatchObject([
    { envelope: { status: "cancelled", error: "the runner is shutting down" } },
  ])
  expect(await done()).toBe("once\n")
})

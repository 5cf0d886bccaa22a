/** Exactly-once delivery of a long answer while connections are reset and the runner is killed. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool, waitFor } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { startTcpProxy, type TcpProxy } from "../kit/tcp-proxy.ts"

const DELTAS = 5000
const RESETS = 20
const STEPS = 5
const END = "the end"

let model: ScriptedModel
let agent: TestSessionAgent
let proxy: TcpProxy
let sandbox: Sandbox

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  proxy = await startTcpProxy(Number(new URL(agent.url).port))
  sandbox = await createSandbox({ url: `ws://127.0.0.1:${proxy.port}/ws`, token: agent.token })
  // A fixed gateway port: with another one OpenCode's environment would differ and OpenCode would be restarted.
  sandbox.environment["GATEWAY_PORT"] = String(freePort())
})

afterAll(async () => {
  await proxy.stop()
  await agent.stop()
  await model.stop()
  await sandbox.remove()
})

const spawnRunner = (run: number) =>
  Bun.spawn([requireBinary(), "run"], {
    env: sandbox.environment,
    stdin: "ignore",
    stdout: "ignore",
    stderr: Bun.file(join(sandbox.root, `runner-${run}.log`)),
  })

const sentText = (): string =>
  agent.frames
    .flatMap((frame) => (frame.type === "message.part.text-delta" ? [frame.delta] : []))
    .join("")

test("a turn of 5,000 deltas arrives complete and with one end over 20 connection resets and two kills of the runner", async () => {
  // Several steps with a tool in between: after a kill the rest of a part is sent only when that part ends.
  const chapters = Array.from({ length: STEPS }, (_, step) =>
    Array.from({ length: DELTAS / STEPS }, (_word, index) => `word-${step}-${index} `).join(""),
  )
  const expected = chapters.join("") + END
  const replies = chapters.map((chapter) => text(chapter, { chunks: DELTAS / STEPS, delayMs: 3 }))
  const note = tool("bash", { command: "echo a step >> steps.txt", description: "notes a step" })
  const faultsOver = Promise.withResolvers<void>()
  model.on("long", [
    ...replies.slice(0, -1).map((chapter) => reply(chapter, note)),
    // The last chapter ends after the last cut, so that all cuts happen during the turn at any speed.
    reply(...replies.slice(-1), waitFor(faultsOver.promise), text(END)),
  ])
  let runs = 1
  let runner = spawnRunner(runs)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  agent.say({ type: "prompt", messageId: "long", content: "@@long@@" })
  await agent.frame("message.create")

  const kills = [0.15, 0.5]
  let cuts = 0
  const progress = () => sentText().length / expected.length
  const isComplete = () => agent.frames.some(({ type }) => type === "complete")
  const connectsAgain = async (act: () => unknown, what: string) => {
    const connections = agent.connections()
    await act()
    await agent.until(() => agent.connections() > connections, what)
  }
  while (!isComplete()) {
    const at = progress()
    if (kills[0] !== undefined && at > kills[0]) {
      kills.shift()
      await connectsAgain(async () => {
        runner.kill("SIGKILL")
        await runner.exited
        runs += 1
        runner = spawnRunner(runs)
      }, "the next runner")
    }
    if (cuts < RESETS) {
      cuts += 1
      await connectsAgain(proxy.reset, "the connection after a reset")
    }
    if (cuts === RESETS && kills.length === 0) faultsOver.resolve()
    // The next cut happens when a fiftieth more of the text has arrived, in the last chapter at once.
    const isLast = () => cuts < RESETS && model.requests.length === STEPS
    await agent.until(() => isComplete() || isLast() || progress() > at + 0.02, "more text")
  }

  expect(runs).toBe(3)
  expect(cuts).toBe(RESETS)
  expect(sentText()).toBe(expected)
  const steps = await Bun.file(join(sandbox.workDir, "steps.txt")).text()
  expect(steps).toBe("a step\n".repeat(STEPS - 1))
  const completed = agent.frames.filter(
    (frame) => frame.type === "message.part.tool-update" && frame.status === "completed",
  )
  expect(completed).toHaveLength(STEPS - 1)
  const ends = agent.frames.filter(({ type }) => type === "message.finalize")
  expect(ends).toHaveLength(1)
  expect(ends[0]).toMatchObject({ reason: "end_turn", finalText: expected, messageId: "long" })
  expect(agent.frames.filter(({ type }) => type === "complete")).toHaveLength(1)
  expect(agent.frames.filter(({ type }) => type === "message.create")).toHaveLength(1)
  expect(agent.problems).toEqual([])
  // The epoch belongs to the state directory, so all runs have the same one.
  expect(new Set(agent.hellos.map(({ epoch }) => epoch)).size).toBe(1)
  runner.kill("SIGTERM")
  expect(await runner.exited).toBe(0)
})

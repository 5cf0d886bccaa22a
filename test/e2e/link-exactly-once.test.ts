/** The promise of the link, whole: a long answer while the wire is cut and the runner is killed, word for word. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { startTcpProxy, type TcpProxy } from "../kit/tcp-proxy.ts"

const DELTAS = 5000
const RESETS = 20

let model: ScriptedModel
let agent: TestSessionAgent
let proxy: TcpProxy
let sandbox: Sandbox

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  proxy = await startTcpProxy(Number(new URL(agent.url).port))
  sandbox = await createSandbox({ url: `ws://127.0.0.1:${proxy.port}/ws`, token: agent.token })
})

afterAll(async () => {
  await proxy.stop()
  await agent.stop()
  await model.stop()
  await sandbox.remove()
})

const spawnRunner = (life: number) =>
  Bun.spawn([requireBinary(), "run"], {
    env: sandbox.environment,
    stdin: "ignore",
    stdout: "ignore",
    stderr: Bun.file(join(sandbox.root, `runner-${life}.log`)),
  })

const said = (): string =>
  agent.frames
    .flatMap((frame) => (frame.type === "message.part.text-delta" ? [frame.delta] : []))
    .join("")

test("a turn of 5,000 deltas over 20 cuts and two kills arrives word for word, with one end", async () => {
  const words = Array.from({ length: DELTAS }, (_, index) => `word-${index} `).join("")
  model.on("long", [text(words, { chunks: DELTAS, delayMs: 3 })])
  let life = 1
  let runner = spawnRunner(life)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  agent.say({ type: "prompt", messageId: "long", content: "@@long@@" })
  await agent.frame("message.create")

  const kills = [0.3, 0.6]
  let cuts = 0
  const progress = () => said().length / words.length
  while (!agent.frames.some(({ type }) => type === "complete")) {
    const at = progress()
    if (kills[0] !== undefined && at > kills[0] - 0.05 * life) {
      kills.shift()
      runner.kill("SIGKILL")
      await runner.exited
      life += 1
      runner = spawnRunner(life)
      const lived = agent.connections()
      await agent.until(() => agent.connections() > lived, "the next runner")
    }
    if (cuts < RESETS) {
      proxy.reset()
      cuts += 1
    }
    await Bun.sleep(400)
  }

  expect(life).toBe(3)
  expect(cuts).toBe(RESETS)
  expect(said()).toBe(words)
  const ends = agent.frames.filter(({ type }) => type === "message.finalize")
  expect(ends).toHaveLength(1)
  expect(ends[0]).toMatchObject({ reason: "end_turn", finalText: words, messageId: "long" })
  expect(agent.frames.filter(({ type }) => type === "complete")).toHaveLength(1)
  expect(agent.frames.filter(({ type }) => type === "message.create")).toHaveLength(1)
  expect(agent.problems).toEqual([])
  // One state directory, one epoch, through all its lives.
  expect(new Set(agent.hellos.map(({ epoch }) => epoch)).size).toBe(1)
  runner.kill("SIGTERM")
  expect(await runner.exited).toBe(0)
})

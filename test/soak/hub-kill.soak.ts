/** SIGKILL of the hub during a turn, with the real runner and the real OpenCode. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { connectClient } from "../hub/kit/client.ts"
import { freePort } from "../kit/free-port.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { untilTrue } from "../kit/until-true.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"

let model: ScriptedModel
let runner: TestRunner
let port: number
let hub: Bun.Subprocess
const url = () => `http://127.0.0.1:${port}`

const startHub = async (stateDir: string) => {
  const program = join(import.meta.dir, "../hub/kit/hub-program.ts")
  const config = JSON.stringify(scriptedConfig(model))
  const child = Bun.spawn([process.execPath, program, stateDir, String(port), "s1", config], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  await child.stdout.getReader().read()
  return child
}

beforeAll(async () => {
  model = await startScriptedModel()
  port = freePort()
  runner = await startRunner({ url: `ws://127.0.0.1:${port}/sessions/s1/ws`, token: RUNNER_TOKEN })
  hub = await startHub(join(runner.sandbox.root, "hub"))
})

afterAll(async () => {
  await runner.stop()
  hub.kill("SIGKILL")
  await hub.exited
  await model.stop()
})

test("after two kills of the hub during a turn the conversation is complete, the queue continues and nothing runs twice", async () => {
  const long = Array.from({ length: 400 }, (_, index) => `${index} `).join("")
  model.on("long", [
    reply(tool("bash", { command: "echo ran >> proof.txt; sleep 2", description: "a" })),
    text(long, { chunks: 200, delayMs: 10 }),
  ])
  model.on("next", [text("the next answer")])
  const first = await connectClient(url(), CLIENT_TOKEN)
  const { messageId } = await first.ask({ type: "prompt", content: "@@long@@" })
  const { messageId: second } = await first.ask({ type: "prompt", content: "@@next@@" })
  const folder = join(runner.sandbox.root, "hub")

  await untilTrue(() => existsSync(join(runner.sandbox.workDir, "proof.txt")), "the tool")
  hub.kill("SIGKILL")
  await hub.exited
  hub = await startHub(folder)

  const between = await connectClient(url(), CLIENT_TOKEN)
  await between.until(
    () => between.answerTo(String(messageId)).length > 300,
    "first part of the answer",
  )
  hub.kill("SIGKILL")
  await hub.exited
  hub = await startHub(folder)

  const last = await connectClient(url(), CLIENT_TOKEN, { from: between })
  await last.until(() => last.answerTo(String(second)) === "the next answer", "the next answer")
  await last.until(() => last.queue().length === 0, "empty queue")
  expect(last.answerTo(String(messageId))).toBe(long)
  expect(last.gaps()).toBe(0)
  expect(last.messages().map(({ role, status }) => `${role} ${status}`)).toEqual([
    "user done",
    "assistant done",
    "user done",
    "assistant done",
  ])
  expect(readFileSync(join(runner.sandbox.workDir, "proof.txt"), "utf8")).toBe("ran\n")
}, 200_000)

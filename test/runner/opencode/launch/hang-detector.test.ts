/** When a silent OpenCode counts as hung. */
import { expect, test } from "bun:test"
import { AgentCallError } from "../../../../src/runner/opencode/client/client.ts"
import { untilHung } from "../../../../src/runner/opencode/launch/hang-detector.ts"
import { createManualClock } from "../../../kit/clock.ts"

const silence = () => Promise.reject(new AgentCallError("GET /x", undefined, { detail: "" }))
const refusal = () => Promise.reject(new AgentCallError("GET /x", 500, { detail: "" }))
const well = () => Promise.resolve({ version: "1" })

/** Answers in turn; gives the reason, or nothing when the answers ran out first. */
const watch = async (replies: readonly (() => Promise<{ version: string }>)[]) => {
  const clock = createManualClock()
  const over = new AbortController()
  const left = [...replies]
  const health = () => (left.shift() ?? well)()
  const reason = untilHung({ client: { health }, clock, everyMs: 5000, misses: 3 }, over.signal)
  for (let count = 0; count < replies.length; count += 1) {
    await Bun.sleep(0)
    clock.advance(5000)
    await Bun.sleep(0)
  }
  over.abort()
  return reason
}

test("three questions in a row without an answer are enough", async () => {
  expect(await watch([well, silence, silence, silence])).toContain("3 times in a row")
})

test("an answer in between begins the count anew", async () => {
  expect(await watch([silence, silence, well, silence, silence])).toBeUndefined()
})

test("a refusal is an answer", async () => {
  expect(await watch([silence, silence, refusal, silence])).toBeUndefined()
})

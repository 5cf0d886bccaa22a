/** When a process that does not respond counts as hung. */
import { expect, test } from "bun:test"
import { AgentCallError } from "../../../../src/runner/opencode/client/client.ts"
import { waitUntilHung } from "../../../../src/runner/opencode/launch/hang-detector.ts"
import { createManualClock } from "../../../kit/clock.ts"

const noResponse = () => Promise.reject(new AgentCallError("GET /x", undefined, { detail: "" }))
const errorResponse = () => Promise.reject(new AgentCallError("GET /x", 500, { detail: "" }))
const healthy = () => Promise.resolve({ version: "1" })

/** Plays the replies in order; resolves with the reason, or undefined when the replies ran out first. */
const watch = async (replies: readonly (() => Promise<{ version: string }>)[]) => {
  const clock = createManualClock()
  const over = new AbortController()
  const left = [...replies]
  const health = () => (left.shift() ?? healthy)()
  const reason = waitUntilHung({ client: { health }, clock, everyMs: 5000, misses: 3 }, over.signal)
  for (let count = 0; count < replies.length; count += 1) {
    // Sleep: yields, so that the detector waits for the clock.
    await Bun.sleep(0)
    clock.advance(5000)
    // Sleep: yields, so that the detector reads the reply.
    await Bun.sleep(0)
  }
  over.abort()
  return reason
}

test("three health checks in a row without a response count as a hang", async () => {
  expect(await watch([healthy, noResponse, noResponse, noResponse])).toContain(
    "3 health checks in a row",
  )
})

test("a response resets the count of missed health checks", async () => {
  expect(await watch([noResponse, noResponse, healthy, noResponse, noResponse])).toBeUndefined()
})

test("an error response resets the count of missed health checks", async () => {
  expect(await watch([noResponse, noResponse, errorResponse, noResponse])).toBeUndefined()
})

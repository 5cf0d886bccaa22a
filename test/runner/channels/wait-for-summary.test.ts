import { expect, test } from "bun:test"
import type { AgentEvent } from "../../../src/runner/opencode/events/events.ts"
import { createSummaries } from "../../../src/runner/channels/wait-for-summary.ts"
import { createManualClock } from "../../kit/clock.ts"

const idle: AgentEvent = { type: "idle", agentSessionId: "s" }
const message = (role: "user" | "assistant"): AgentEvent => ({
  type: "message",
  agentSessionId: "s",
  message: { id: "m", agentSessionId: "s", role, createdAt: 0, completed: false, isSummary: false },
})

const isDone = async (promise: Promise<void>): Promise<boolean> =>
  Promise.race([promise.then(() => true), Promise.resolve().then(() => false)])

test("a session that was never idle has no summary to wait for", async () => {
  const summaries = createSummaries(createManualClock())
  await summaries.waitFor("s")
})

test("the first update of the user message after idle ends the wait", async () => {
  const summaries = createSummaries(createManualClock())
  summaries.onEvent(message("user"))
  summaries.onEvent(idle)
  const waiting = summaries.waitFor("s")
  summaries.onEvent(message("assistant"))
  expect(await isDone(waiting)).toBeFalse()
  summaries.onEvent(message("user"))
  await waiting
  await summaries.waitFor("s")
})

test("a summary that arrived before the call ends the wait at once", async () => {
  const summaries = createSummaries(createManualClock())
  summaries.onEvent(idle)
  summaries.onEvent(message("user"))
  await summaries.waitFor("s")
})

test("the wait for a summary that never arrives ends after three seconds", async () => {
  const clock = createManualClock()
  const summaries = createSummaries(clock)
  summaries.onEvent(idle)
  const waiting = summaries.waitFor("s")
  clock.advance(2999)
  expect(await isDone(waiting)).toBeFalse()
  clock.advance(1)
  await waiting
})

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

test("a session that never fell idle has nothing to wait for", async () => {
  const summaries = createSummaries(createManualClock())
  await summaries.of("s")
})

test("after idle the user's message is updated once more, and that is the summary", async () => {
  const summaries = createSummaries(createManualClock())
  summaries.hear(message("user"))
  summaries.hear(idle)
  const waiting = summaries.of("s")
  summaries.hear(message("assistant"))
  expect(await isDone(waiting)).toBeFalse()
  summaries.hear(message("user"))
  await waiting
  await summaries.of("s")
})

test("a summary that came before anybody asked is there", async () => {
  const summaries = createSummaries(createManualClock())
  summaries.hear(idle)
  summaries.hear(message("user"))
  await summaries.of("s")
})

test("one that does not come is not waited for longer than three seconds", async () => {
  const clock = createManualClock()
  const summaries = createSummaries(clock)
  summaries.hear(idle)
  const waiting = summaries.of("s")
  clock.advance(2999)
  expect(await isDone(waiting)).toBeFalse()
  clock.advance(1)
  await waiting
})

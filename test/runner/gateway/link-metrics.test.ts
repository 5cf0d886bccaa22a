/** The taps of the link, as the runner's metrics use them. */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import { systemClock } from "../../../src/lib/clock.ts"
import { createLinkMetrics } from "../../../src/runner/gateway/link-metrics.ts"
import { createLink } from "../../../src/runner/link/link.ts"
import { openOutboxStore } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox } from "../../../src/runner/link/outbox.ts"
import type { OutboundFrame } from "../../../src/wire/frames/index.ts"
import { recordingLog } from "../../kit/log.ts"

test("every tap of the link gets every frame that is sent, in order, and the frame is still sent", () => {
  const db = new Database(":memory:", { strict: true })
  db.run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
  const outbox = createOutbox({
    store: openOutboxStore(db),
    maxBytes: 1e9,
    onStoreFailure: () => {},
  })
  const metrics = createLinkMetrics()
  const order: string[] = []
  const link = createLink({
    url: "ws://127.0.0.1:1/",
    token: "t",
    sessionId: "s",
    version: "0",
    epoch: "e",
    outbox,
    clock: systemClock,
    log: recordingLog([]),
    active: () => [],
    onFrame: () => {},
    onConnected: () => {},
    taps: [
      metrics.onFrameSent,
      ({ type }) => void order.push(`first ${type}`),
      ({ type }) => void order.push(`second ${type}`),
    ],
    onEnd: () => {},
  })
  const frames: OutboundFrame[] = [
    { type: "message.finalize", turnId: "t", messageId: "m", reason: "end_turn" },
    { type: "complete", messageId: "m" },
  ]
  for (const frame of frames) link.send(frame)
  expect(order).toEqual(frames.flatMap(({ type }) => [`first ${type}`, `second ${type}`]))
  expect(outbox.stats().frames).toBe(2)
  expect(
    metrics.read(link.counters(), 0).find(({ name }) => name === "sandpiper_turns_total")?.values,
  ).toEqual([{ value: 1, labels: { outcome: "end_turn" } }])
})

/** Text in any pieces and batches is exact for every reader, from any cursor. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { createCore } from "../kit/core.ts"

const origin = { messageId: "p1", channelType: "web", channelId: "default" }

/** A client's view of one part, built from its events. */
const read = (events: readonly Record<string, unknown>[], start = "") =>
  events.reduce((text, event) => {
    if (event["type"] === "part") return (event["part"] as { text?: string }).text ?? ""
    if (event["type"] !== "part.delta") return text
    const offset = Number(event["offset"])
    const more = String(event["text"])
    if (offset > text.length) throw new Error("a delta is missing")
    return text.slice(0, offset) + more + text.slice(offset + more.length)
  }, start)

test("any pieces of text are exact in the rows, live, and from any cursor, also after a restart", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          piece: fc.string({ unit: "binary", minLength: 1, maxLength: 8 }),
          after: fc.constantFrom("nothing", "batch", "tick", "snapshot"),
        }),
        { minLength: 1, maxLength: 40 },
      ),
      (steps) => {
        const core = createCore()
        let seq = core.connectRunner("a")
        let whole = ""
        const seen: { rev: number; text: string }[] = []
        for (const { piece, after } of steps) {
          core.receive("a", {
            type: "message.part.text-delta",
            turnId: "t",
            partId: "p",
            delta: piece,
            ...origin,
            seq,
          })
          seq += 1
          whole += piece
          if (after === "tick") core.clock.advance(1)
          if (after === "batch") core.clock.advance(250)
          if (after === "snapshot") {
            const snapshot = core.session.snapshot() as { rev: number }
            seen.push({ rev: snapshot.rev, text: whole })
          }
        }
        core.receive("a", {
          type: "message.finalize",
          turnId: "t",
          reason: "end_turn",
          ...origin,
          seq,
        })
        expect(read(core.broadcasts)).toBe(whole)
        expect(
          core.session
            .recent(5)[0]
            ?.parts.map((part) => part.text)
            .join(""),
        ).toBe(whole)
        const later = core.restart()
        expect(later.session.recent(5)[0]?.parts[0]?.text).toBe(whole)
        for (const { rev, text } of seen) {
          later.session.clients.subscribe(`c${rev}`, { cursor: rev })
          const [replay] = later.sent(`c${rev}`) as unknown as [
            { type: string; events: Record<string, unknown>[] },
          ]
          expect(replay.type).toBe("changes")
          expect(read(replay.events, text)).toBe(whole)
        }
      },
    ),
    { numRuns: 60 },
  )
})

test("an emoji whose halves are in different batches is whole", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  const [high = "", low = ""] = "👋".split("")
  core.receive("a", {
    type: "message.part.text-delta",
    turnId: "t",
    partId: "p",
    delta: `a${high}`,
    ...origin,
    seq,
  })
  core.clock.advance(300)
  expect(core.session.recent(1)[0]?.parts[0]?.text).toBe(`a${high}`)
  core.receive("a", {
    type: "message.part.text-delta",
    turnId: "t",
    partId: "p",
    delta: `${low}b`,
    ...origin,
    seq: seq + 1,
  })
  core.clock.advance(300)
  expect(core.restart().session.recent(1)[0]?.parts[0]?.text).toBe("a👋b")
})

test("a part that is longer than a row continues in another row", () => {
  const core = createCore()
  let seq = core.connectRunner("a")
  const piece = "0123456789".repeat(5000)
  for (let made = 0; made < 30; made += 1) {
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: piece,
      ...origin,
      seq,
    })
    seq += 1
  }
  core.session.runner.flush()
  const rows = core.sql.all<{ id: string; size: number }>(
    "SELECT id, length(text) AS size FROM parts",
  )
  expect(rows.length).toBeGreaterThan(2)
  expect(Math.max(...rows.map(({ size }) => size))).toBeLessThan(600_000)
  expect(
    core.session
      .recent(1)[0]
      ?.parts.map((part) => part.text)
      .join(""),
  ).toBe(piece.repeat(30))
})

test("deltas without a part id continue the last part until another kind of part comes", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  const delta = (text: string, place: number) =>
    core.receive("a", {
      type: "message.part.text-delta",
      turnId: "t",
      delta: text,
      ...origin,
      seq: seq + place,
    })
  delta("one ", 0)
  delta("two", 1)
  core.receive("a", {
    type: "message.part.tool-update",
    turnId: "t",
    callId: "c",
    toolName: "bash",
    status: "running",
    ...origin,
    seq: seq + 2,
  })
  delta("three", 3)
  core.receive("a", {
    type: "message.finalize",
    turnId: "t",
    reason: "end_turn",
    ...origin,
    seq: seq + 4,
  })
  expect(core.session.recent(1)[0]?.parts.map(({ kind, text }) => [kind, text])).toEqual([
    ["text", "one two"],
    ["tool", undefined],
    ["text", "three"],
  ])
})

test("a replay announces a message before its parts and its end after them", () => {
  const core = createCore()
  const seq = core.connectRunner("a")
  const { rev } = core.session.snapshot() as { rev: number }
  core.receive("a", { type: "message.create", turnId: "t", ...origin, seq })
  core.receive("a", {
    type: "message.part.text-delta",
    turnId: "t",
    partId: "p",
    delta: "one",
    ...origin,
    seq: seq + 1,
  })
  core.receive("a", {
    type: "message.finalize",
    turnId: "t",
    reason: "end_turn",
    ...origin,
    seq: seq + 2,
  })
  core.session.clients.subscribe("c", { cursor: rev })
  const [replay] = core.sent("c") as unknown as [{ events: Record<string, { status?: string }>[] }]
  const steps = replay.events.map((event) => [event["type"], event["message"]?.status])
  expect(steps as unknown).toEqual([
    ["message", "streaming"],
    ["part", undefined],
    ["message", "done"],
    ["channel", undefined],
  ])
})

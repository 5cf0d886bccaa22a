/** Deliveries over kills at every step: nothing lost, nothing doubled, in order, on both SQL hosts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { fileURLToPath } from "node:url"
import * as fc from "fast-check"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { migrate } from "../../../src/hub/session/schema.ts"
import { createManualClock } from "../../kit/clock.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { createCore } from "../kit/core.ts"
import { startTestWorker, type TestWorker } from "../kit/workerd.ts"
import {
  type CallEnd,
  type DeliveryStep,
  type PlayedDeliveries,
  playDeliveries,
} from "./delivery-script.ts"

const callEnd = fc.constantFrom<CallEnd>(
  "taken",
  "failed",
  "final",
  "lost",
  "killed before",
  "killed after",
)
const step: fc.Arbitrary<DeliveryStep> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("add"),
      kind: fc.constantFrom("known", "blind"),
      lane: fc.constantFrom("a", "b"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("calls"), ends: fc.array(callEnd, { maxLength: 4 }) }),
  },
  { weight: 3, arbitrary: fc.constant({ do: "alarm" }) },
  { weight: 1, arbitrary: fc.constant({ do: "restart" }) },
  { weight: 2, arbitrary: fc.constant({ do: "kill in transaction" }) },
)
const steps = fc.array(step, { maxLength: 30 })

const expectDelivered = ({ added, known, blind, ended, left }: PlayedDeliveries): void => {
  expect(left).toBe(0)
  // Nothing is lost without a word, and each end is said once.
  const all = Object.values(added).flat()
  expect(all.filter((id) => ![...known, ...blind, ...ended].includes(id))).toEqual([])
  expect(new Set(ended).size).toBe(ended.length)
  // A receiver that cannot recognize a repeated call gets each delivery at most once.
  expect(new Set(blind).size).toBe(blind.length)
  // In the order of their lane.
  for (const ids of Object.values(added))
    for (const received of [known, blind])
      expect(received.filter((id) => ids.includes(id))).toEqual(
        ids.filter((id) => received.includes(id)),
      )
}

describe("deliveries", () => {
  test("on bun:sqlite each delivery arrives once and in order, or its end is said, after any failures and kills", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (played) => {
        const sql = openBunSql(":memory:")
        expectDelivered(await playDeliveries(sql, played))
        sql.close()
      }),
      { numRuns: 500 },
    )
  })

  test("a delivery whose host is killed at every single step arrives once", async () => {
    const kills: readonly (readonly DeliveryStep[])[] = [
      [{ do: "restart" }],
      [{ do: "calls", ends: ["killed before"] }],
      [{ do: "calls", ends: ["killed after"] }],
      [{ do: "kill in transaction" }],
      [{ do: "calls", ends: ["failed"] }, { do: "kill in transaction" }],
      [{ do: "calls", ends: ["lost", "killed after"] }, { do: "kill in transaction" }],
    ]
    for (const kill of kills) {
      const sql = openBunSql(":memory:")
      const played = await playDeliveries(sql, [
        ...kill,
        { do: "add", kind: "known", lane: "a" },
        { do: "alarm" },
      ])
      expect({ kill, known: played.known, ended: played.ended }).toEqual({
        kill,
        known: ["a-1"],
        ended: [],
      })
      sql.close()
    }
  })

  describe("in a Durable Object", () => {
    let workerd: TestWorker
    beforeAll(async () => {
      workerd = await startTestWorker(
        fileURLToPath(import.meta.resolve("./delivery-script-program.ts")),
        "DeliveryObject",
      )
    })
    afterAll(() => workerd.stop())

    test("in a Durable Object each delivery arrives once and in order, or its end is said, after any failures and kills", async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (played) => {
          const response = await workerd.worker.dispatchFetch("http://object/", {
            method: "POST",
            body: JSON.stringify(played),
          })
          expectDelivered((await response.json()) as PlayedDeliveries)
        }),
        { numRuns: 60 },
      )
    })
  })
})

/** The tables in which an earlier version kept each kind. */
const OLD_TABLES = [
  `CREATE TABLE workflow_reports (
    place INTEGER PRIMARY KEY AUTOINCREMENT, execution TEXT NOT NULL, envelope TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0)`,
  "CREATE TABLE child_reports (id TEXT PRIMARY KEY, report TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0)",
  `CREATE TABLE sends (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, reply TEXT NOT NULL, channel TEXT NOT NULL,
    text TEXT NOT NULL, artifact TEXT, mime TEXT, attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT NULL,
    started_at INTEGER)`,
  "CREATE TABLE deadlines (kind TEXT NOT NULL, ref TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (kind, ref))",
]

test("what a session of an earlier version has not sent yet is sent after the update, under the same ids", async () => {
  const sql = openBunSql(":memory:")
  for (const table of OLD_TABLES) sql.run(table)
  const envelope = { ok: true, status: "ok", executionId: "x1" }
  sql.run(
    "INSERT INTO workflow_reports (execution, envelope) VALUES ('x1', ?)",
    JSON.stringify(envelope),
  )
  const report = { id: "end-p1", kind: "done", title: "child", text: "the answer" }
  sql.run("INSERT INTO child_reports (id, report) VALUES ('end-p1', ?)", JSON.stringify(report))
  const send =
    "INSERT INTO sends (id, reply, channel, text, artifact, mime, due_at, started_at) VALUES (?, ?, 'slack:C1', ?, ?, ?, 0, ?)"
  sql.run(send, "r1/0", "r1", "begun", null, null, 5)
  sql.run(send, "r2/0", "r2", "with an image", "art1", "image/png", null)
  for (const kind of ["report", "workflow", "send", "fleet", "artifact"])
    sql.run("INSERT INTO deadlines VALUES (?, '', 1)", kind)
  migrate(sql)
  sql.run("INSERT INTO meta (name, value) VALUES ('parent', 's0')")
  sql.run(
    "INSERT INTO artifacts (id, mime, bytes, description, at) VALUES ('art1', 'image/png', 6, '', 1)",
  )

  const got: unknown[] = []
  const blobs = new Map([["art1", btoa("pixels")]])
  const core = createCore(sql, createManualClock(1_000_000), undefined, blobs, {
    workflowReported: (...args) => void got.push(args),
    tellParent: async (...args) => void got.push(args),
    chats: {
      maxTextLength: () => 1000,
      send: async (_type, channel, { id, text, image }) =>
        void got.push([channel, id, text, image?.base64]),
      wasSent: async (_type, channel, { id }) => {
        got.push([channel, id, "was sent?"])
        return true
      },
    },
  })
  core.session.recover([])
  await untilTrue(() => sql.all("SELECT 1 FROM deliveries").length === 0, "no delivery left")
  expect(got).toHaveLength(4)
  expect(got).toContainEqual(["x1", envelope, "x1/1"])
  expect(got).toContainEqual(["s0", report])
  expect(got.filter((one) => Array.isArray(one) && one[0] === "C1")).toEqual([
    ["C1", "r1/0", "was sent?"],
    ["C1", "r2/0", "with an image", btoa("pixels")],
  ])
  const old =
    "SELECT name FROM sqlite_master WHERE name IN ('workflow_reports', 'child_reports', 'sends')"
  expect(sql.all(old)).toEqual([])
  core.clock.advance(60_000)
  expect(got).toHaveLength(4)
})

/** Everything that a session writes stays within the limits of a Durable Object: 100 values a statement, rows below 2 MB. */
import { expect, test } from "bun:test"
import { openBunSql } from "../../src/hub/hosts/bun/sql.ts"
import type { Sql, SqlValue } from "../../src/hub/session/ports.ts"
import { createCore } from "./kit/core.ts"

const origin = { messageId: "p1", channelType: "web", channelId: "default" }
const MB = 1_000_000
const bytesOf = (value: unknown) => (typeof value === "string" ? Buffer.byteLength(value) : 8)

/** Records the most values and the most bytes of any statement. */
const recordMaximum = (sql: Sql) => {
  const most = { values: 0, bytes: 0 }
  const record = (values: readonly SqlValue[]) => {
    most.values = Math.max(most.values, values.length)
    most.bytes = Math.max(
      most.bytes,
      values.reduce<number>((sum, value) => sum + bytesOf(value), 0),
    )
  }
  const all = <Row>(query: string, ...values: readonly SqlValue[]): Row[] => {
    record(values)
    return sql.all<Row>(query, ...values)
  }
  const run = (query: string, ...values: readonly SqlValue[]) => {
    record(values)
    sql.run(query, ...values)
  }
  return { most, sql: { ...sql, all, run } }
}

test("the biggest frames of a runner and the biggest requests of a client fit into the rows", () => {
  const inner = openBunSql(":memory:")
  const { most, sql } = recordMaximum(inner)
  const core = createCore(sql)
  let seq = core.connectRunner("a")
  const say = (frame: Record<string, unknown>) => {
    core.receive("a", { ...frame, seq })
    seq += 1
  }
  const wide = "漢"
  const long = wide.repeat(3 * MB)
  const url = `data:image/png;base64,${"A".repeat(4 * MB)}`
  const attachments = [{ type: "file" as const, mime: "image/png", url }]
  for (let index = 0; index < 120; index += 1) {
    core.session.prompt({ type: "prompt", messageId: `q${index}`, content: "x" }, "web:default")
  }
  core.session.clients.request({ type: "abort", queued: true }, "test")
  core.session.clients.request(
    { type: "prompt", content: wide.repeat(400_000), attachments },
    "test",
  )
  say({ type: "message.create", turnId: "t", ...origin })
  for (let index = 0; index < 300; index += 1) {
    say({
      type: "message.part.text-delta",
      turnId: "t",
      partId: "p",
      delta: wide.repeat(10_000),
      ...origin,
    })
  }
  say({ type: "message.part.text-delta", turnId: "t", partId: "q", delta: long, ...origin })
  say({
    type: "message.part.tool-update",
    turnId: "t",
    callId: "c",
    toolName: "bash",
    status: "completed",
    args: { command: long },
    result: long,
    ...origin,
  })
  say({ type: "screenshot", data: "A".repeat(4 * MB), description: "a screen" })
  say({ type: "message.finalize", turnId: "t", reason: "end_turn", ...origin })
  say({ type: "complete", ...origin })

  expect(core.reports).toEqual([])
  expect(most.values).toBeLessThanOrEqual(100)
  expect(most.bytes).toBeLessThan(2 * MB)
  for (const table of ["parts", "queue", "messages", "asks", "state", "meta", "artifacts"]) {
    const rows = inner.all<Record<string, unknown>>(`SELECT * FROM ${table}`)
    for (const row of rows) {
      const size = Object.values(row).reduce<number>((sum, value) => sum + bytesOf(value), 0)
      expect(size).toBeLessThan(2 * MB)
    }
  }
  const texts = core.session.recent(9).flatMap(({ parts }) => parts.map(({ text = "" }) => text))
  expect(texts.join("")).toContain(long)
})

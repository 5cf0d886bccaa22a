/** Results of what must happen once. */
import { expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createResults, MAX_OUTSIDE } from "../../../src/hub/shared-store/results.ts"
import { createSharedTables } from "../../../src/hub/shared-store/schema.ts"
import { digestOf } from "../../../src/lib/digest.ts"

test("the newest deliveries of each webhook are remembered, those of others stay, and a deleted webhook leaves none", () => {
  const sql = openBunSql(":memory:")
  createSharedTables(sql)
  const results = createResults(sql, { now: () => 1, digest: digestOf })
  const ran: string[] = []
  const deliver = (from: string, id: string) =>
    results.onceFromOutside(from, id, () => void ran.push(`${from} ${id}`))
  const count = () => sql.all("SELECT 1 FROM rpc").length
  deliver("hook a", "other")
  results.once({ from: "s1", id: "r" }, "x", () => ({ done: true }))
  const long = "x".repeat(100_000)
  for (let i = 0; i <= MAX_OUTSIDE; i += 1) deliver("hook b", `${i}`)
  deliver("hook b", long)
  expect(count()).toBe(MAX_OUTSIDE + 2)
  ran.length = 0
  deliver("hook a", "other")
  deliver("hook b", long)
  deliver("hook b", "3")
  expect(ran).toEqual([])
  deliver("hook b", "0")
  expect(ran).toEqual(["hook b 0"])
  expect(JSON.stringify(sql.all("SELECT * FROM rpc")).length).toBeLessThan(300_000)
  results.forget("hook b")
  expect(count()).toBe(2)
  expect(results.once({ from: "s1", id: "r" }, "x", () => ({ done: false }))).toEqual({
    done: true,
  })
  sql.close()
})

/** What the API keeps to recognise repeated calls is bounded in bytes. */
import { expect, test } from "bun:test"
import { createOnce } from "../../src/runner/gateway/idempotency.ts"

const MEGABYTE = 1024 * 1024

test("64 calls of eight megabytes with an Idempotency-Key do not stay in memory", async () => {
  const once = createOnce<string>({ now: Date.now, sizeOf: (text) => text.length })
  Bun.gc(true)
  const before = process.memoryUsage().rss
  for (let index = 0; index < 64; index += 1) {
    // Distinct bytes: a repeated string would share its memory.
    const large = Buffer.alloc(8 * MEGABYTE, index % 251).toString("latin1")
    await once(`key-${index}`, `${index} ${large}`, async () => large.slice(0, -1))
  }
  Bun.gc(true)
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * MEGABYTE)
})

test("the newest results are kept when the oldest are removed for their size", async () => {
  let runs = 0
  const once = createOnce<string>({ now: Date.now, sizeOf: () => 40, mostBytes: 100 })
  const call = (key: string) =>
    once(key, "call", async () => {
      runs += 1
      return key
    })
  for (const key of ["a", "b", "c"]) await call(key)
  expect(runs).toBe(3)
  for (const key of ["b", "c"]) await call(key)
  expect(runs).toBe(3)
  await call("a")
  expect(runs).toBe(4)
})

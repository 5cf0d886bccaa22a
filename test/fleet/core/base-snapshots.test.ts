/** Which base snapshot new sandboxes begin with, and when it is removed. */
import { expect, test } from "bun:test"
import { baseName, basesToRemove, currentBase } from "../../../src/fleet/core/base-snapshots.ts"

const HOUR = 3_600_000
const DAY = 24 * HOUR
const base = (id: string, key: string, createdAt: number) => ({
  id,
  session: baseName(key),
  createdAt,
})
const ofSession = { id: "s1", session: "thread-1", createdAt: 0 }

test("the newest base snapshot of this version is used, never one of another version or an expired one", () => {
  const stored = [base("a", "v1", 1), base("b", "v1", 2), base("c", "v2", 3), ofSession]
  expect(currentBase(stored, "v1", undefined, 10)).toBe("b")
  expect(currentBase(stored, "v2", undefined, 10)).toBe("c")
  expect(currentBase(stored, "v3", undefined, 10)).toBeUndefined()
  expect(currentBase(stored, "v1", 5, 7)).toBeUndefined()
})

test("a base snapshot ends with its version after a day, when a newer one replaces it, or when it expires", () => {
  const stored = [base("old", "v1", 0), base("first", "v2", 0), base("now", "v2", HOUR), ofSession]
  expect(basesToRemove(stored, "v2", undefined, HOUR)).toEqual([])
  expect(basesToRemove(stored, "v2", undefined, 2 * HOUR)).toEqual(["first"])
  expect(basesToRemove(stored, "v2", undefined, DAY)).toEqual(["old", "first"])
  expect(basesToRemove(stored, "v2", 30 * DAY, 31 * DAY)).toEqual(["old", "first", "now"])
  expect(basesToRemove([ofSession], "v2", 1, DAY)).toEqual([])
})

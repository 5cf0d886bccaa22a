/** When a schedule is due. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { nextTime, parseCron } from "../../../src/hub/shared-store/cron.ts"

const next = (cron: string, after: string, zone?: string): string | undefined => {
  const at = nextTime(parseCron(cron), Date.parse(after), zone)
  return at === undefined ? undefined : new Date(at).toISOString()
}

describe("a schedule", () => {
  test.each([
    ["* * * * *", "2026-11-16T11:30:20Z", "2026-11-16T11:31:00.000Z"],
    ["*/15 * * * *", "2026-11-16T11:30:00Z", "2026-11-16T11:45:00.000Z"],
    ["0 9 * * mon-fri", "2026-11-13T09:00:00Z", "2026-11-16T09:00:00.000Z"],
    ["30 6 1 jan *", "2026-11-16T00:00:00Z", "2027-01-01T06:30:00.000Z"],
    ["0 0 13 * fri", "2026-11-16T00:00:00Z", "2026-11-20T00:00:00.000Z"],
    ["0 0 29 2 *", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00.000Z"],
    ["@daily", "2026-11-16T11:30:00Z", "2026-11-17T00:00:00.000Z"],
    ["5/20 * * * 7", "2026-11-16T00:00:00Z", "2026-11-22T00:05:00.000Z"],
  ])("%s after %s is %s", (cron, after, expected) => {
    expect(next(cron, after)).toBe(expected)
  })

  test("is due by the clock of its zone, over a change of the hour too", () => {
    expect(next("0 9 * * *", "2026-07-01T00:00:00Z", "Europe/Berlin")).toBe(
      "2026-07-01T07:00:00.000Z",
    )
    expect(next("0 9 * * *", "2026-10-25T00:00:00Z", "Europe/Berlin")).toBe(
      "2026-10-25T08:00:00.000Z",
    )
    expect(next("30 2 * * *", "2026-03-28T23:00:00Z", "Europe/Berlin")).toBe(
      "2026-03-30T00:30:00.000Z",
    )
  })

  test("that can never be is never due", () => {
    expect(next("0 0 31 2 *", "2026-01-01T00:00:00Z")).toBeUndefined()
  })

  test.each([
    "",
    "* * * *",
    "60 * * * *",
    "* * * * 8",
    "5-1 * * * *",
    "*/0 * * * *",
    "a * * * *",
    "1,,2 * * * *",
  ])("%p is none", (cron) => expect(() => parseCron(cron)).toThrow())

  test("is due later than asked, on a minute, and never before its due time again", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 4e12 }),
        fc.integer({ min: 1, max: 59 }),
        fc.integer({ min: 0, max: 23 }),
        (after, minute, hour) => {
          const schedule = parseCron(`${minute} ${hour} * * *`)
          const at = nextTime(schedule, after) ?? 0
          expect(at).toBeGreaterThan(after)
          expect(at - after).toBeLessThanOrEqual(86_400_000)
          expect(new Date(at).getUTCMinutes()).toBe(minute)
          expect(nextTime(schedule, at - 1)).toBe(at)
        },
      ),
    )
  })
})

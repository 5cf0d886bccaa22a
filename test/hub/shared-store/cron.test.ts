/** Cron schedules: the next time, time zones, daylight saving and invalid input. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { nextTime, parseCron } from "../../../src/hub/shared-store/cron.ts"

const next = (cron: string, after: string, zone?: string): string | undefined => {
  const at = nextTime(parseCron(cron, zone), Date.parse(after))
  return at === undefined ? undefined : new Date(at).toISOString()
}

describe("cron schedule", () => {
  test.each([
    ["* * * * *", "2026-11-16T11:30:20Z", "2026-11-16T11:31:00.000Z"],
    ["*/15 * * * *", "2026-11-16T11:30:00Z", "2026-11-16T11:45:00.000Z"],
    ["0 9 * * mon-fri", "2026-11-13T09:00:00Z", "2026-11-16T09:00:00.000Z"],
    ["30 6 1 jan *", "2026-11-16T00:00:00Z", "2027-01-01T06:30:00.000Z"],
    ["0 0 13 * fri", "2026-11-16T00:00:00Z", "2026-11-20T00:00:00.000Z"],
    ["0 0 29 2 *", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00.000Z"],
    ["@daily", "2026-11-16T11:30:00Z", "2026-11-17T00:00:00.000Z"],
    ["5/20 * * * 7", "2026-11-16T00:00:00Z", "2026-11-22T00:05:00.000Z"],
  ])("the schedule %s after %s is next due at %s", (cron, after, expected) => {
    expect(next(cron, after)).toBe(expected)
  })

  test("a schedule follows the clock of its time zone across daylight saving changes", () => {
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

  test.each([
    [
      "a time skipped in spring",
      "30 2 * * *",
      "America/New_York",
      "2026-03-08T05:00:00Z",
      "2026-03-09T06:30:00.000Z",
    ],
    [
      "midnight skipped in spring",
      "0 0 * * *",
      "America/Santiago",
      "2026-09-05T12:00:00Z",
      "2026-09-07T03:00:00.000Z",
    ],
    [
      "the first of two equal times in autumn",
      "30 2 * * *",
      "Europe/Berlin",
      "2026-10-24T23:00:00Z",
      "2026-10-25T00:30:00.000Z",
    ],
    [
      "no second run in autumn",
      "30 2 * * *",
      "Europe/Berlin",
      "2026-10-25T00:30:00Z",
      "2026-10-26T01:30:00.000Z",
    ],
    [
      "each hour of the repeated hour",
      "0 * * * *",
      "Europe/Berlin",
      "2026-10-25T00:00:00Z",
      "2026-10-25T01:00:00.000Z",
    ],
    [
      "a change of half an hour",
      "15 2 * * *",
      "Australia/Lord_Howe",
      "2026-10-03T13:00:00Z",
      "2026-10-04T15:15:00.000Z",
    ],
    [
      "an offset of 45 minutes",
      "0 0 29 2 *",
      "Asia/Kathmandu",
      "2026-01-01T00:00:00Z",
      "2028-02-28T18:15:00.000Z",
    ],
  ])("daylight saving edge: %s (%s in %s after %s) is %s", (_edge, cron, zone, after, expected) => {
    expect(next(cron, after, zone)).toBe(expected)
  })

  test("a schedule for a date that does not exist is never due", () => {
    expect(next("0 0 31 2 *", "2026-01-01T00:00:00Z")).toBeUndefined()
  })

  test.each(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Auckland"])(
    "the impossible date 31 February in %s is answered within 10 ms",
    (zone) => {
      const measure = () => {
        const start = performance.now()
        expect(next("0 0 31 2 *", "2026-01-01T00:00:00Z", zone)).toBeUndefined()
        return performance.now() - start
      }
      // The fastest of several: the machine may be busy and the first call compiles the code.
      expect(Math.min(...Array.from({ length: 10 }, measure))).toBeLessThan(10)
    },
  )

  test.each([
    "",
    "* * * *",
    "60 * * * *",
    "* * * * 8",
    "5-1 * * * *",
    "*/0 * * * *",
    "a * * * *",
    "1,,2 * * * *",
    "* * * * * *",
    "2026-01-01T00:00:00Z",
    "@reboot",
  ])("the text %p is refused with an example of a schedule", (cron) =>
    expect(() => parseCron(cron)).toThrow("is not a cron schedule"),
  )

  test("an unknown time zone is refused by name", () => {
    expect(() => parseCron("* * * * *", "Mars/Olympus")).toThrow(
      '"Mars/Olympus" is not a time zone',
    )
  })

  test("the next time is after the given time, on the scheduled minute and the same when asked 1 ms before", () => {
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

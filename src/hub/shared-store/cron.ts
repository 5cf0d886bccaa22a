/** Cron schedules with five fields, in a time zone. A thin adapter around croner, which also runs under workerd. */
import { Cron } from "croner"

const NICKNAME = /^@[a-z]+$/i
const FIVE_FIELDS = /^\S+(?:\s+\S+){4}$/

/** Throws an Error for the person who wrote the schedule. Croner would also accept an ISO date or six fields. */
export const parseCron = (text: string, timezone = "UTC"): Cron => {
  const pattern = text.trim()
  checkTimezone(timezone)
  try {
    if (!NICKNAME.test(pattern) && !FIVE_FIELDS.test(pattern)) throw new Error("not five fields")
    // sloppyRanges accepts "5/20": every 20 minutes from minute 5.
    return new Cron(pattern, { mode: "5-part", sloppyRanges: true, timezone })
  } catch (error) {
    throw new Error(
      `"${text}" is not a cron schedule. Write minute, hour, day of month, month and weekday, such as "30 9 * * mon-fri".`,
      { cause: error },
    )
  }
}

/** The first matching minute after `after`, both in ms since 1970. Undefined for a date that does not exist, such as 31 February. */
export const nextTime = (schedule: Cron, after: number): number | undefined => {
  let run = schedule.nextRun(new Date(after))
  // Croner moves a time that daylight saving skips to the end of the gap. Here that day has no run.
  while (run !== null && !schedule.match(run)) run = schedule.nextRun(run)
  return run?.getTime()
}

const checkTimezone = (timezone: string): void => {
  try {
    Intl.DateTimeFormat("en-US", { timeZone: timezone })
  } catch (error) {
    throw new Error(`"${timezone}" is not a time zone. Write a name such as "Europe/Berlin".`, {
      cause: error,
    })
  }
}

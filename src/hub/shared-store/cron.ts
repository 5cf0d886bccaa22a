/** When a schedule is due: the five fields of cron, in a time zone. */

/** For each field the values that fit. */
interface Schedule {
  readonly minutes: ReadonlySet<number>
  readonly hours: ReadonlySet<number>
  readonly days: ReadonlySet<number>
  readonly months: ReadonlySet<number>
  readonly weekdays: ReadonlySet<number>
  /** When both are given, a day fits that fits either: so says cron. */
  readonly either: boolean
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
const NICKNAMES: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
}
const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** A date such as 29 February comes within this; what does not come in it never does. */
const FAR_MS = 9 * 366 * 24 * HOUR_MS

/** Throws in words when it is no schedule. */
export const parseCron = (text: string): Schedule => {
  const fields = (NICKNAMES[text.trim()] ?? text).trim().toLowerCase().split(/\s+/)
  if (fields.length !== 5)
    throw new Error("a schedule has five fields: minute hour day month weekday")
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = fields
  return {
    minutes: field(minute, 0, 59),
    hours: field(hour, 0, 23),
    days: field(day, 1, 31),
    months: field(month, 1, 12, MONTHS, 1),
    weekdays: new Set([...field(weekday, 0, 7, WEEKDAYS, 0)].map((value) => value % 7)),
    either: day !== "*" && weekday !== "*",
  }
}

const field = (
  text: string,
  least: number,
  most: number,
  names: readonly string[] = [],
  first = 0,
): ReadonlySet<number> => {
  const number = (word: string): number => {
    const named = names.indexOf(word)
    const value = named === -1 ? Number(word) : named + first
    if (word === "" || !Number.isInteger(value) || value < least || value > most) {
      throw new Error(`${word || "nothing"} is not between ${least} and ${most}`)
    }
    return value
  }
  const values = new Set<number>()
  for (const item of text.split(",")) {
    const [range = "", every = "1", ...more] = item.split("/")
    const step = Number(every)
    if (more.length > 0 || !Number.isInteger(step) || step < 1)
      throw new Error(`${item} has no good step`)
    const [from = "", to, ...rest] = range.split("-")
    if (rest.length > 0) throw new Error(`${range} is no range`)
    const start = range === "*" ? least : number(from)
    const end =
      range === "*" || (to === undefined && item.includes("/")) ? most : number(to ?? from)
    if (end < start) throw new Error(`${range} runs backwards`)
    for (let value = start; value <= end; value += step) values.add(value)
  }
  return values
}

/** The first minute after `after` that fits; nothing when there is none. Throws on an unknown time zone. */
export const nextTime = (schedule: Schedule, after: number, zone = "UTC"): number | undefined => {
  const local = clockOf(zone)
  let at = Math.floor(after / MINUTE_MS) * MINUTE_MS + MINUTE_MS
  const end = after + FAR_MS
  while (at <= end) {
    const { minute, hour, day, month, weekday } = local(at)
    // By the hour: a day may have 23 or 25 of them.
    if (
      !schedule.months.has(month) ||
      !dayFits(schedule, day, weekday) ||
      !schedule.hours.has(hour)
    ) {
      at += HOUR_MS - minute * MINUTE_MS
    } else if (!schedule.minutes.has(minute)) at += MINUTE_MS
    else return at
  }
  return undefined
}

const dayFits = ({ days, weekdays, either }: Schedule, day: number, weekday: number): boolean =>
  either ? days.has(day) || weekdays.has(weekday) : days.has(day) && weekdays.has(weekday)

const clockOf = (zone: string) => {
  if (zone === "UTC") {
    return (at: number) => {
      const date = new Date(at)
      return {
        minute: date.getUTCMinutes(),
        hour: date.getUTCHours(),
        day: date.getUTCDate(),
        month: date.getUTCMonth() + 1,
        weekday: date.getUTCDay(),
      }
    }
  }
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    minute: "numeric",
    hour: "numeric",
    day: "numeric",
    month: "numeric",
    weekday: "short",
  })
  return (at: number) => {
    const parts = Object.fromEntries(
      format.formatToParts(at).map(({ type, value }) => [type, value]),
    )
    return {
      minute: Number(parts["minute"]),
      hour: Number(parts["hour"]),
      day: Number(parts["day"]),
      month: Number(parts["month"]),
      weekday: WEEKDAYS.indexOf(String(parts["weekday"]).toLowerCase()),
    }
  }
}

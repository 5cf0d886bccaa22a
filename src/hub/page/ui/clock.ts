/** Times as people read them. Pure, except that the language is the browser's. */

const pad = (value: number): string => String(value).padStart(2, "0")

/** 0:42, 12:05, 1:02:03 */
export const stopwatch = (ms: number): string => {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return h > 0 ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`
}

/** 0.4 s, 12 s, 1 m 42 s */
export const duration = (ms: number): string => {
  if (ms < 10_000) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  return `${Math.floor(seconds / 60)} m ${seconds % 60} s`
}

/** 1 s, 6 s, 1 m 42 s: where tenths of a second do not matter. */
export const seconds = (ms: number): string =>
  ms < 10_000 ? `${Math.max(1, Math.round(ms / 1000))} s` : duration(ms)

/** Made once: making one takes longer than drawing a whole turn. */
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" })

export const clockTime = (at: number): string => clock.format(at)

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** now, 3 min, 6 h, Sun, 12 Nov */
export const age = (at: number, now: number): string => {
  const ms = now - at
  if (ms < MINUTE) return "now"
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`
  if (ms < 6 * DAY) return new Date(at).toLocaleDateString("en-GB", { weekday: "short" })
  return new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" })
}

/** 840, 48.2k, 1.3M */
export const compactNumber = (value: number): string => {
  if (value < 1000) return String(value)
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k`
  return `${(value / 1_000_000).toFixed(1)}M`
}

export const dollars = (value: number): string =>
  value > 0 && value < 0.01 ? "<$0.01" : `$${value.toFixed(2)}`

export const fileSize = (bytes: number): string =>
  bytes < 1000
    ? `${bytes} B`
    : bytes < 1_000_000
      ? `${Math.round(bytes / 1000)} kB`
      : `${(bytes / 1_000_000).toFixed(1)} MB`

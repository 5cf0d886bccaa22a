/** The only writer of logs: one JSON object per line, or readable lines on a terminal. Secrets are redacted here. */

import { visibleText } from "./visible-text.ts"

export type Level = "debug" | "info" | "warn" | "error"
export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  readonly debug: (event: string, fields?: Fields) => void
  readonly info: (event: string, fields?: Fields) => void
  readonly warn: (event: string, fields?: Fields) => void
  readonly error: (event: string, fields?: Fields) => void
  /** A log that adds these fields to each of its lines. */
  readonly child: (fields: Fields) => Log
  /** Redacts these values too from now on, in this log, its parent and all its children. */
  readonly hide: (secrets: readonly string[]) => void
}

export interface LogOptions {
  readonly level: Level
  readonly format: "json" | "pretty"
  /** Every secret value of the process; each occurrence is replaced. */
  readonly secrets: readonly string[]
  readonly write: (line: string) => void
  readonly now: () => number
}

const rank: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 }

export const createLog = (options: LogOptions): Log => {
  let secrets = options.secrets
  let redact = createRedactor(secrets)
  const render = options.format === "json" ? renderJson : renderPretty
  const make = (base: Fields): Log => {
    const at = (level: Level) => (event: string, fields?: Fields) => {
      if (rank[level] < rank[options.level]) return
      options.write(redact(render(options.now(), level, event, { ...base, ...fields })))
    }
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => make({ ...base, ...fields }),
      hide: (more) => {
        secrets = [...new Set([...secrets, ...more])]
        redact = createRedactor(secrets)
      },
    }
  }
  return make({})
}

const HIDDEN = "[redacted]"

/**
 * Credentials that are recognised by their form. Each pattern keeps the name of the secret and hides its value, so that
 * the line still shows what was there.
 */
const shapes: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)(\s+|%20)[A-Za-z0-9\-._~+/%]{6,}=*/gi, `$1$2${HIDDEN}`],
  [/\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*/g, HIDDEN],
  [/([a-z][a-z0-9+.-]*:\/\/)[^\s/"'@\\]+@/gi, `$1${HIDDEN}@`],
  [/((?:^|[?&;\s"'_-])(?:auth_)?token=)[^&\s"'\\;#]+/gi, `$1${HIDDEN}`],
]

/** Replaces the given values (plain, JSON, percent and base64 encoded), then everything that has the form of a credential. */
export const createRedactor = (secrets: readonly string[]): ((text: string) => string) => {
  const spellings = new Set<string>()
  for (const secret of secrets) {
    // A very short value would redact ordinary words. The settings reject secrets that short.
    if (secret.length < 6) continue
    spellings.add(secret)
    spellings.add(JSON.stringify(secret).slice(1, -1))
    spellings.add(encodeURIComponent(secret))
    spellings.add(btoa(unescapeUtf8(secret)).replace(/=+$/, ""))
  }
  const known = [...spellings].toSorted((a, b) => b.length - a.length)
  return (text) => {
    let clean = text
    for (const value of known) clean = clean.replaceAll(value, HIDDEN)
    for (const [shape, replacement] of shapes) clean = clean.replace(shape, replacement)
    return clean
  }
}

const unescapeUtf8 = (text: string): string =>
  Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("")

const renderJson = (at: number, level: Level, event: string, fields: Fields): string =>
  JSON.stringify({ at: new Date(at).toISOString(), level, event, ...fields }, serializable)

const renderPretty = (at: number, level: Level, event: string, fields: Fields): string => {
  const time = new Date(at).toISOString().slice(11, 23)
  const mark = { debug: "·", info: " ", warn: "!", error: "✗" }[level]
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "string" ? value : JSON.stringify(value, serializable)}`,
    )
    // One line, whatever a sandbox has put into it.
    .map((field) => visibleText(field).replaceAll("\n", "␊"))
  return [`${time} ${mark} ${event}`, ...rest].join("  ")
}

/** JSON.stringify drops errors and throws on big integers; logging must never throw. */
const serializable = (_key: string, value: unknown): unknown => {
  if (value instanceof Error) return describeError(value)
  return typeof value === "bigint" ? String(value) : value
}

/** The messages of an error and its causes, in one line. */
export const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? "" : `: ${describeError(error.cause)}`
  return `${error.message || error.name}${cause}`
}

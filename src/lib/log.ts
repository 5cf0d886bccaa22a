/** The only writer of logs: one JSON object a line (readable lines on a terminal), secrets taken out here. */

export type Level = "debug" | "info" | "warn" | "error"
export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  readonly debug: (event: string, fields?: Fields) => void
  readonly info: (event: string, fields?: Fields) => void
  readonly warn: (event: string, fields?: Fields) => void
  readonly error: (event: string, fields?: Fields) => void
  /** A log whose every line carries these fields too. */
  readonly child: (fields: Fields) => Log
  /** From now on these values are taken out as well, in every log of the process. */
  readonly hide: (secrets: readonly string[]) => void
}

export interface LogOptions {
  readonly level: Level
  readonly format: "json" | "pretty"
  /** Every secret value of the process; each is replaced wherever it turns up. */
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
 * Shapes that are secret whoever made them. Each keeps what names the secret and hides its value, so that a
 * line still tells what was there.
 */
const shapes: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)(\s+|%20)[A-Za-z0-9\-._~+/%]{6,}=*/gi, `$1$2${HIDDEN}`],
  [/\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*/g, HIDDEN],
  [/([a-z][a-z0-9+.-]*:\/\/)[^\s/"'@\\]+@/gi, `$1${HIDDEN}@`],
  [/((?:^|[?&;\s"'_-])(?:auth_)?token=)[^&\s"'\\;#]+/gi, `$1${HIDDEN}`],
]

/** Takes out the given values in every spelling a line may hold them in, then whatever looks like a credential. */
export const createRedactor = (secrets: readonly string[]): ((text: string) => string) => {
  const spellings = new Set<string>()
  for (const secret of secrets) {
    // Very short values would blank out ordinary words; the Config refuses secrets that short.
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
  JSON.stringify({ at: new Date(at).toISOString(), level, event, ...fields }, plain)

const renderPretty = (at: number, level: Level, event: string, fields: Fields): string => {
  const time = new Date(at).toISOString().slice(11, 23)
  const mark = { debug: "·", info: " ", warn: "!", error: "✗" }[level]
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "string" ? value : JSON.stringify(value, plain)}`,
    )
  return [`${time} ${mark} ${event}`, ...rest].join("  ")
}

/** Errors and big integers have no JSON of their own; a log line must never be what throws. */
const plain = (_key: string, value: unknown): unknown => {
  if (value instanceof Error) return describeError(value)
  return typeof value === "bigint" ? String(value) : value
}

/** The message of an error with those of its causes, in one line. */
export const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? "" : `: ${describeError(error.cause)}`
  return `${error.message || error.name}${cause}`
}

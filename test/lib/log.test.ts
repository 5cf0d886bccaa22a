import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createLog, createRedactor, describeError, type Log } from "../../src/lib/log.ts"

const recording = (
  options: {
    level?: "debug" | "info" | "warn" | "error"
    format?: "json" | "pretty"
    secrets?: string[]
  } = {},
): { log: Log; lines: string[] } => {
  const lines: string[] = []
  const log = createLog({
    level: options.level ?? "debug",
    format: options.format ?? "json",
    secrets: options.secrets ?? [],
    write: (line) => void lines.push(line),
    now: () => 0,
  })
  return { log, lines }
}

describe("a line", () => {
  test("is one JSON object with time, level, event and fields", () => {
    const { log, lines } = recording()
    log.child({ part: "link" }).info("opened", { port: 9 })
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      at: "1970-01-01T00:00:00.000Z",
      level: "info",
      event: "opened",
      part: "link",
      port: 9,
    })
  })

  test("below the level is not written", () => {
    const { log, lines } = recording({ level: "warn" })
    log.info("quiet")
    log.error("loud")
    expect(lines).toHaveLength(1)
  })

  test("stays one line, whatever the fields hold", () => {
    const { log, lines } = recording()
    log.info("event", {
      text: "a\nb",
      big: 10n,
      error: new Error("outer", { cause: new Error("inner") }),
    })
    expect(lines[0]).not.toContain("\n")
    expect(lines[0]).toContain("outer: inner")
  })

  test("reads well on a terminal", () => {
    const { log, lines } = recording({ format: "pretty" })
    log.warn("link.down", { why: "closed", retryInMs: 1000 })
    expect(lines[0]).toBe("00:00:00.000 ! link.down  why=closed  retryInMs=1000")
  })
})

describe("a secret", () => {
  const secret = 'p&ss "word" ✓ 123456'

  test.each([
    ["as it is", secret],
    ["inside JSON", JSON.stringify({ a: secret })],
    ["in a URL", `https://x/?k=${encodeURIComponent(secret)}`],
    ["in base64", Buffer.from(secret).toString("base64")],
  ])("of the Config is hidden %s", (_how, text) => {
    const clean = createRedactor([secret])(text)
    expect(clean).toContain("[redacted]")
    expect(clean).not.toContain(secret)
    expect(clean).not.toContain("word")
  })

  test.each([
    ["a bearer header", "Authorization: Bearer abcdef.123456-xyz", "abcdef"],
    ["a basic header", '"authorization":"Basic b3BlbmNvZGU6c2VjcmV0"', "b3Blbm"],
    ["a JWT", "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl end", "eyJ"],
    ["credentials in a URL", "cloning https://user:hunter22@git.example/x.git", "hunter22"],
    ["a token in a query", "GET /ws?role=runner&token=very-secret-1&x=2", "very-secret-1"],
    ["a token in a form", "auth_token=abcdefg;", "abcdefg"],
  ])("that looks like %s is hidden", (_what, text, hidden) => {
    expect(createRedactor([])(text)).not.toContain(hidden)
  })

  test("leaves the words around it", () => {
    expect(createRedactor([])("GET /ws?role=runner&token=abc&x=2")).toBe(
      "GET /ws?role=runner&token=[redacted]&x=2",
    )
  })

  test("never gets through a log line, wherever it stands", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 8, maxLength: 40 }),
        fc.string(),
        fc.string(),
        (value, a, b) => {
          fc.pre(!"[redacted]".includes(value) && value.trim().length >= 8)
          const { log, lines } = recording({ secrets: [value] })
          log.info("e", { text: a + value + b, [`k${a}`]: { deep: [value] } })
          const line = lines[0] ?? ""
          expect(line).not.toContain(JSON.stringify(value).slice(1, -1))
        },
      ),
    )
  })
})

test("what becomes a secret later is taken out from then on, in logs that were there before too", () => {
  const { log, lines } = recording({ secrets: ["the-first-secret"] })
  const child = log.child({ part: "x" })
  log.hide(["the-second-secret"])
  child.info("e", { a: "the-first-secret", b: "the-second-secret" })
  expect(lines[0]).not.toContain("secret")
})

test("an error tells its causes", () => {
  const error = new Error("a", { cause: new Error("b", { cause: "c" }) })
  expect(describeError(error)).toBe("a: b: c")
})

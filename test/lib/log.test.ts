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

describe("a log line", () => {
  test("a log line is one JSON object with time, level, event and fields", () => {
    const { log, lines } = recording()
    log.child({ component: "link" }).info("opened", { port: 9 })
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      at: "1970-01-01T00:00:00.000Z",
      level: "info",
      event: "opened",
      component: "link",
      port: 9,
    })
  })

  test("a line below the log level is not written", () => {
    const { log, lines } = recording({ level: "warn" })
    log.info("quiet")
    log.error("loud")
    expect(lines).toHaveLength(1)
  })

  test("a log entry stays on one line for any field values", () => {
    const { log, lines } = recording()
    log.info("event", {
      text: "a\nb",
      big: 10n,
      error: new Error("outer", { cause: new Error("inner") }),
    })
    expect(lines[0]).not.toContain("\n")
    expect(lines[0]).toContain("outer: inner")
  })

  test("the pretty format shows time, event and fields", () => {
    const { log, lines } = recording({ format: "pretty" })
    log.warn("link.down", { why: "closed", retryInMs: 1000 })
    expect(lines[0]).toBe("00:00:00.000 ! link.down  why=closed  retryInMs=1000")
  })

  test("a value in the pretty format can neither act on the terminal nor begin another line", () => {
    const { log, lines } = recording({ format: "pretty" })
    log.warn("agent.failed", {
      why: "\u001B]0;title\u0007\n00:00:00.000 ! forged",
      list: ["\u009B2J"],
    })
    expect(lines[0]).toBe(
      '00:00:00.000 ! agent.failed  why=␛]0;title␇␊00:00:00.000 ! forged  list=["\\x9b2J"]',
    )
  })
})

describe("secrets in the log", () => {
  const secret = 'p&ss "word" ✓ 123456'

  test.each([
    ["as it is", secret],
    ["inside JSON", JSON.stringify({ a: secret })],
    ["in a URL", `https://x/?k=${encodeURIComponent(secret)}`],
    ["in base64", Buffer.from(secret).toString("base64")],
  ])("a configured secret is hidden %s", (_how, text) => {
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
  ])("a value with the form of %s is hidden", (_what, text, hidden) => {
    expect(createRedactor([])(text)).not.toContain(hidden)
  })

  test("the text around a hidden secret stays", () => {
    expect(createRedactor([])("GET /ws?role=runner&token=abc&x=2")).toBe(
      "GET /ws?role=runner&token=[redacted]&x=2",
    )
  })

  test("no secret appears in a log line, in any position and encoding", () => {
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

test("a secret that is added later is hidden in existing logs too", () => {
  const { log, lines } = recording({ secrets: ["the-first-secret"] })
  const child = log.child({ part: "x" })
  log.hide(["the-second-secret"])
  child.info("e", { a: "the-first-secret", b: "the-second-secret" })
  expect(lines[0]).not.toContain("secret")
})

test("the description of an error contains its causes", () => {
  const error = new Error("a", { cause: new Error("b", { cause: "c" }) })
  expect(describeError(error)).toBe("a: b: c")
})

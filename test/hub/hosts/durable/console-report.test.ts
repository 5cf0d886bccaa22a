/** The log lines of a Durable Object. */
import { expect, test } from "bun:test"
import { reportLine } from "../../../../src/hub/hosts/durable/console-report.ts"

test("a report of a Durable Object is one JSON line with the event, the session and scalar fields", () => {
  const line = reportLine("hub.frame-dropped", "s1", {
    problem: "no seq",
    attempts: 2,
    nested: { text: "contents" },
    nothing: undefined,
  })
  expect(line).not.toContain("\n")
  expect(JSON.parse(line)).toEqual({
    level: "warn",
    event: "hub.frame-dropped",
    session: "s1",
    problem: "no seq",
    attempts: 2,
  })
})

test("a long field of a report is cut, so that a line cannot hold a message", () => {
  const { error } = JSON.parse(
    reportLine("hub.frame-failed", undefined, { error: "x".repeat(999) }),
  )
  expect(error).toHaveLength(200)
})

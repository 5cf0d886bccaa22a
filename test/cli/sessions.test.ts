/** The output of `sandpiper sessions`. */
import { expect, test } from "bun:test"
import { describeSessions } from "../../src/cli/sessions.ts"

test("each session has a line with its state, its queue and its title", () => {
  const sessions = [
    { id: "a", connected: true, working: 1, queued: 2, title: "Fix it" },
    { id: "b", connected: true },
    { id: "c" },
    { id: "d", status: "ended", working: 1 },
  ]
  const lines = describeSessions({ sessions }).split("\n")
  expect(lines.map((line) => line.replaceAll(/ +/g, " "))).toEqual([
    "a working 2 waiting Fix it",
    "b idle",
    "c away",
    "d ended",
    "",
  ])
})

test("an empty list is reported as a sentence", () => {
  expect(describeSessions({ sessions: [] })).toBe("There are no sessions.\n")
})

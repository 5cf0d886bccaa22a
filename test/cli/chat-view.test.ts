/** What the terminal chat prints of a session's events: text once, tool output while it runs, withdrawn text. */
import { expect, test } from "bun:test"
import { createChatView } from "../../src/cli/chat-view.ts"
import type { HubEvent } from "../../src/cli/hub-client.ts"

const play = (events: readonly HubEvent[]): string => {
  let screen = ""
  const { show } = createChatView({ write: (text) => (screen += text), colours: false })
  for (const event of events) show(event)
  return screen
}
const message = (status: string, rev: number): HubEvent => ({
  type: "message",
  rev,
  message: { id: "m", place: 1, role: "assistant", channel: "web:default", status, createdAt: 1 },
})
const tool = (status: string, fields: object = {}): HubEvent => ({
  type: "part",
  rev: 2,
  messageId: "m",
  part: {
    id: "c",
    place: 2,
    kind: "tool",
    data: { callId: "c", toolName: "bash", status, args: { command: "count" }, ...fields },
  },
})
const delta = (partId: string, offset: number, text: string): HubEvent => ({
  type: "part.delta",
  rev: 3,
  messageId: "m",
  partId,
  offset,
  text,
})
const textPart: HubEvent = {
  type: "part",
  rev: 2,
  messageId: "m",
  part: { id: "t", place: 2, kind: "text", text: "Hel" },
}

test("the output of a running tool is printed as it grows, and its result does not repeat it", () => {
  const screen = play([
    message("streaming", 1),
    tool("running"),
    delta("c", 0, "one\n"),
    delta("c", 4, "two\n"),
    tool("completed", { result: "one\ntwo\n" }),
    message("done", 4),
  ])
  expect(screen).toBe('  ● bash {"command":"count"}\none\ntwo\n\n\n')
})

test("the last words of a tool are printed if only its result has them", () => {
  const screen = play([
    message("streaming", 1),
    tool("running"),
    delta("c", 0, "one\n"),
    tool("completed", { result: "one\ntwo\n" }),
    message("done", 4),
  ])
  expect(screen).toBe('  ● bash {"command":"count"}\none\ntwo\n\n')
})

test("a result that does not begin with the output on the screen is not printed after it", () => {
  const screen = play([
    message("streaming", 1),
    tool("running"),
    delta("c", 0, "10 %\n"),
    tool("completed", { result: "100 %, done" }),
    message("done", 4),
  ])
  expect(screen).toBe('  ● bash {"command":"count"}\n10 %\n\n\n')
})

test("a delta that is repeated after a reconnect is printed once", () => {
  const screen = play([
    message("streaming", 1),
    textPart,
    delta("t", 3, "lo"),
    delta("t", 0, "Hello"),
    delta("t", 5, "!"),
    message("done", 4),
  ])
  expect(screen).toBe("Hello!\n\n")
})

test("text that a retry withdraws is announced as withdrawn", () => {
  const removed: HubEvent = { type: "part.removed", rev: 5, messageId: "m", partId: "t" }
  expect(play([message("streaming", 1), textPart, removed])).toContain("is withdrawn")
})

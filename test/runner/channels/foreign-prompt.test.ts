/** Which user message of an agent session is the prompt of another client of OpenCode. */
import { expect, test } from "bun:test"
import {
  findForeignPrompt,
  findMissedPrompt,
  foreignJob,
} from "../../../src/runner/channels/foreign-prompt.ts"
import type { AgentPart } from "../../../src/runner/opencode/events/events.ts"
import type { StoredMessage } from "../../../src/runner/turn/turn.ts"

const part = (messageId: string, more: object): AgentPart =>
  ({ id: `prt_${messageId}`, messageId, agentSessionId: "ses_1", ...more }) as AgentPart
const typed = (messageId: string, text: string, synthetic = false) =>
  part(messageId, { kind: "text", text, ended: true, synthetic })
const message = (
  id: string,
  role: "user" | "assistant",
  ...parts: readonly AgentPart[]
): StoredMessage => ({
  message: { id, agentSessionId: "ses_1", role, createdAt: 1, completed: true, isSummary: false },
  parts,
})
const isOwn = (id: string) => id.startsWith("own")

test("the newest prompt is foreign if no job has posted it", () => {
  const messages = [
    message("own1", "user", typed("own1", "of the hub")),
    message("a1", "assistant", typed("a1", "answer")),
    message("tui1", "user", typed("tui1", "of the TUI"), typed("tui1", "a file's text", true)),
    message("a2", "assistant"),
  ]
  expect(findForeignPrompt(messages, isOwn)).toEqual({ userMessageId: "tui1", text: "of the TUI" })
  expect(findForeignPrompt(messages, isOwn, "own1")).toBeUndefined()
})

test("an own prompt after a foreign one, and messages that OpenCode adds, are not foreign prompts", () => {
  const before = [
    message("tui1", "user", typed("tui1", "earlier")),
    message("own1", "user", typed("own1", "of the hub")),
  ]
  const compaction = message("x1", "user", part("x1", { kind: "other", type: "compaction" }))
  const goOn = message("x2", "user", typed("x2", "Continue", true))
  expect(findForeignPrompt([...before, compaction, goOn], isOwn)).toBeUndefined()
  expect(findForeignPrompt([compaction], isOwn, "x1")).toBeUndefined()
})

const answer = (id: string, parentId: string, more: object = {}): StoredMessage => {
  const made = message(id, "assistant", typed(id, "answer"))
  return { ...made, message: { ...made.message, parentId, ...more } }
}

test("the oldest answered prompt that no job knows is the missed one, and ends before the next prompt", () => {
  const messages = [
    message("before", "user", typed("before", "from before the channel")),
    answer("a0", "before"),
    message("own1", "user", typed("own1", "of the hub")),
    answer("a1", "own1"),
    message("tui1", "user", typed("tui1", "first")),
    answer("a2", "tui1"),
    message("tui2", "user", typed("tui2", "second")),
    answer("a3", "tui2"),
  ]
  expect(findMissedPrompt(messages, isOwn)).toEqual({
    userMessageId: "tui1",
    text: "first",
    endsBefore: "tui2",
  })
  const isKnown = (id: string) => isOwn(id) || id === "tui1"
  expect(findMissedPrompt(messages, isKnown)).toEqual({ userMessageId: "tui2", text: "second" })
  expect(findMissedPrompt(messages, (id) => isKnown(id) || id === "tui2")).toBeUndefined()
})

test("prompts without an answer, of a session that no job knows, and copies after a compaction are not missed ones", () => {
  const own = message("own1", "user", typed("own1", "of the hub"))
  const tui = message("tui1", "user", typed("tui1", "typed"))
  expect(findMissedPrompt([own, tui], isOwn)).toBeUndefined()
  expect(findMissedPrompt([tui, answer("a1", "tui1")], isOwn)).toBeUndefined()
  const compacted = [
    own,
    tui,
    message("x1", "user", part("x1", { kind: "other", type: "compaction" })),
    answer("s1", "x1", { isSummary: true }),
    message("copy", "user", typed("copy", "typed")),
    answer("a2", "copy"),
  ]
  const missed = findMissedPrompt(
    [...compacted.slice(0, 2), answer("a1", "tui1"), ...compacted.slice(2)],
    isOwn,
  )
  expect(missed).toEqual({ userMessageId: "tui1", text: "typed" })
})

test("the id of a foreign job names OpenCode's message", () => {
  const job = foreignJob(
    { userMessageId: "msg_1", text: "x" },
    { channelType: "web", channelId: "a" },
  )
  expect(job).toMatchObject({ messageId: "opencode-msg_1", content: "x", channelId: "a" })
})

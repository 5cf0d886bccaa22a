/** A host that dies while it sends a message to a chat service: the message is never sent twice, and its end is visible. */
import { expect, test } from "bun:test"
import { type ChatMessage, SendError } from "../../../src/hub/session/chat-services.ts"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createManualClock } from "../../kit/clock.ts"
import { createCore } from "../kit/core.ts"

const coreWith = (send: (text: string) => Promise<void>) =>
  createCore(openBunSql(":memory:"), createManualClock(1_000_000), undefined, new Map(), {
    chats: {
      maxTextLength: (type) => (type === "slack" ? 4000 : undefined),
      send: (_type, _channel, { text }: ChatMessage) => send(text),
    },
  })
const reply = (id: string, content: string) =>
  ({ id, role: "assistant", content, channel: "slack:C1", reply: true }) as const
const errorsOf = (core: ReturnType<typeof createCore>) =>
  core.session
    .snapshot()
    .messages.flatMap(({ role, error = "" }) => (role === "system" ? [error] : []))

test("a message whose call was cut off by a crash is not sent again, the conversation says so, and the next one is sent", async () => {
  const sent: string[] = []
  const core = coreWith((text) => {
    sent.push(text)
    return sent.length === 1 ? new Promise(() => {}) : Promise.resolve()
  })
  core.session.note(reply("r1", "first"))
  core.session.note(reply("r2", "second"))
  expect(sent).toEqual(["first"])
  const later = core.restart()
  later.session.recover([])
  await Bun.sleep(5)
  expect(sent).toEqual(["first", "second"])
  expect(errorsOf(later)).toEqual([
    "the hub stopped while it sent a message to slack: the message may not have arrived and is not sent again",
  ])
  expect(later.reports).toContain("hub.chat-send-unknown")
  later.restart().session.recover([])
  await Bun.sleep(5)
  expect(sent).toHaveLength(2)
})

test("a message whose failed call was recorded before a crash is sent again", async () => {
  const sent: string[] = []
  const core = coreWith((text) => {
    sent.push(text)
    return sent.length === 1
      ? Promise.reject(new SendError("down", { retryable: true }))
      : Promise.resolve()
  })
  core.session.note(reply("r1", "first"))
  await Bun.sleep(5)
  const later = core.restart()
  later.session.recover([])
  later.clock.advance(60_000)
  await Bun.sleep(5)
  expect(sent).toEqual(["first", "first"])
  expect(errorsOf(later)).toEqual([])
})

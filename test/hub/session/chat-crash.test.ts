/** A host that dies while it sends a message to a chat service: the message is never sent twice, and its end is visible. */
import { expect, test } from "bun:test"
import {
  type ChatMessage,
  type ChatServices,
  SendError,
} from "../../../src/hub/session/chat-services.ts"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { createManualClock } from "../../kit/clock.ts"
import { createCore } from "../kit/core.ts"
import { untilTrue } from "../../kit/until-true.ts"

const coreWith = (
  send: (text: string) => Promise<void>,
  wasSent: ChatServices["wasSent"] = async () => "unknown",
) =>
  createCore(openBunSql(":memory:"), createManualClock(1_000_000), undefined, new Map(), {
    chats: {
      maxTextLength: (type) => (type === "slack" ? 4000 : undefined),
      send: (_type, _channel, { text }: ChatMessage) => send(text),
      wasSent,
    },
  })
const reply = (id: string, content: string) =>
  ({ id, role: "assistant", content, channel: "slack:C1", reply: true }) as const
/** Messages that are not settled yet. */
const waiting = ({ sql }: ReturnType<typeof createCore>) =>
  sql.all("SELECT id FROM deliveries").length
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
  await untilTrue(() => sent.length > 0, "the call of the first message")
  expect(sent).toEqual(["first"])
  const later = core.restart()
  later.session.recover([])
  await untilTrue(() => waiting(later) === 0, "the end of both messages")
  expect(sent).toEqual(["first", "second"])
  expect(errorsOf(later)).toEqual([
    "the hub stopped while it sent a message to slack: the message may not have arrived and is not sent again",
  ])
  expect(later.reports).toContain("hub.chat-send-unknown")
  const last = later.restart()
  last.session.recover([])
  // Messages of a channel are sent in their order: one that is sent again comes before it.
  last.session.note(reply("r3", "third"))
  await untilTrue(() => waiting(last) === 0, "the end of the third message")
  expect(sent).toEqual(["first", "second", "third"])
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
  await untilTrue(() => core.reports.includes("hub.delivery-failed"), "the recorded failure")
  const later = core.restart()
  later.session.recover([])
  later.clock.advance(60_000)
  await untilTrue(() => waiting(later) === 0, "the end of the message")
  expect(sent).toEqual(["first", "first"])
  expect(errorsOf(later)).toEqual([])
})

test("a message whose call was cut off by a crash is sent again only if the service does not have it", async () => {
  for (const arrived of [true, false]) {
    const sent: string[] = []
    const asked: string[] = []
    const core = coreWith(
      (text) => {
        sent.push(text)
        return sent.length === 1 ? new Promise(() => {}) : Promise.resolve()
      },
      async (_type, _channel, { id }) => {
        asked.push(id)
        return arrived
      },
    )
    core.session.note(reply("r1", "first"))
    await untilTrue(() => sent.length > 0, "the call of the message")
    const later = core.restart()
    later.session.recover([])
    await untilTrue(() => waiting(later) === 0, "the end of the message")
    expect(sent).toEqual(arrived ? ["first"] : ["first", "first"])
    expect(new Set(asked).size).toBe(1)
    expect(errorsOf(later)).toEqual([])
  }
})

test("a look that fails is repeated before the message is sent again", async () => {
  const sent: string[] = []
  let looks = 0
  const core = coreWith(
    (text) => {
      sent.push(text)
      const lost = new SendError("cut", { retryable: true, mayHaveArrived: true })
      return sent.length === 1 ? Promise.reject(lost) : Promise.resolve()
    },
    async () => {
      looks += 1
      if (looks === 1) throw new SendError("busy", { retryable: true })
      return true
    },
  )
  core.session.note(reply("r1", "first"))
  await untilTrue(() => waiting(core) === 1 && core.reports.length === 1, "the lost answer")
  core.clock.advance(60_000)
  await untilTrue(() => looks === 1 && core.reports.length === 2, "the first look")
  core.clock.advance(60_000)
  await untilTrue(() => waiting(core) === 0, "the end of the message")
  expect({ sent, looks }).toEqual({ sent: ["first"], looks: 2 })
  expect(errorsOf(core)).toEqual([])
})

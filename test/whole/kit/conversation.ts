/** The text of the model equals the text at the client, also after failures of the model, the agent session and the link. */
import { expect, test } from "bun:test"
import { cut, httpError, overflow, reply, text, tool } from "../../kit/model.ts"
import { PNG as PIXEL } from "../../kit/programs.ts"
import { OWN_CONNECTION } from "./hosts.ts"
import type { House } from "./house.ts"
import { untilTrue } from "./row.ts"

const WHOLE = "The heron stands in the reeds and waits. 🪶 ".repeat(12).trim()
const TEST_MS = 120_000

/** The texts of the answer to a prompt at a client that connects afterwards, and at the one that was there. */
const shownTexts = async ({ client, api }: House, promptId: string): Promise<readonly string[]> => {
  const snapshot = (await (await api("GET", "/sessions/main")).json()) as {
    readonly messages: readonly {
      readonly role: string
      readonly promptId?: string
      readonly parts: readonly { readonly kind: string; readonly text?: string }[]
    }[]
  }
  const stored = snapshot.messages
    .filter(({ role, promptId: id }) => role === "assistant" && id === promptId)
    .flatMap(({ parts }) =>
      parts.flatMap(({ kind, text: part = "" }) => (kind === "text" ? [part] : [])),
    )
    .join("")
  return [stored, client.answerTo(promptId)]
}

export const describeConversation = (house: () => House): void => {
  const sayAndShow = async (script: string, fields: object = {}) => {
    const channel = { channelType: "text", channelId: script }
    const promptId = await house().say(`@@${script}@@`, { ...channel, ...fields })
    await house().ended(promptId)
    return shownTexts(house(), promptId)
  }

  test(
    "the text after a failed call of the provider is the text of the model",
    async () => {
      house().model.on("retried", [httpError(500), text(WHOLE, { chunks: 20 })])
      expect(await sayAndShow("retried")).toEqual([WHOLE, WHOLE])
    },
    TEST_MS,
  )

  test(
    "a retry in the middle of an answer withdraws the half answer",
    async () => {
      house().model.on("half", [
        reply(text("Half of an ans", { chunks: 3, delayMs: 50 }), cut()),
        text(WHOLE, { chunks: 20 }),
      ])
      expect(await sayAndShow("half")).toEqual([WHOLE, WHOLE])
    },
    TEST_MS,
  )

  test(
    "the text after a failover is the text of the second model",
    async () => {
      house().model.on("failover", [httpError(401), text(WHOLE, { chunks: 20 })])
      const modelPreferences = ["scripted/m1", "scripted/m2"]
      expect(await sayAndShow("failover", { modelPreferences })).toEqual([WHOLE, WHOLE])
      expect(house().model.requests.at(-1)?.model).toBe("m2")
    },
    TEST_MS,
  )

  test(
    "the text after a compaction is the text of the model, without the summary",
    async () => {
      const channel = { channelType: "text", channelId: "compaction" }
      house().model.on("before", [text("A long story."), text("The summary of a long story.")])
      const first = await house().say("@@before@@", channel)
      await house().ended(first)
      house().model.on("overflow", [overflow(), text(WHOLE, { chunks: 20 })])
      const second = await house().say("@@overflow@@", channel)
      await house().ended(second)
      expect(await shownTexts(house(), second)).toEqual([WHOLE, WHOLE])
      expect(await shownTexts(house(), first)).toEqual(["A long story.", "A long story."])
    },
    TEST_MS,
  )

  test(
    "a revert removes the text and the file of a turn, and the next turn shows the text of the model",
    async () => {
      const { model, client, say, ended, inWorkspace } = house()
      const channel = { channelType: "text", channelId: "revert" }
      const filePath = inWorkspace("undone.txt")
      model.on("undone", [tool("write", { filePath, content: "undo me" }), text("I wrote a file.")])
      const undone = await say("@@undone@@", channel)
      await ended(undone)
      expect(await Bun.file(filePath).exists()).toBeTrue()
      await client.ask({ type: "revert", messageId: undone })
      await client.until(
        () => client.messages().every(({ promptId, id }) => promptId !== undone && id !== undone),
        "removal at the client",
      )
      expect(await shownTexts(house(), undone)).toEqual(["", ""])
      expect(await Bun.file(filePath).exists()).toBeFalse()
      model.on("after-undo", [text(WHOLE, { chunks: 20 })])
      const next = await say("@@after-undo@@", channel)
      await ended(next)
      expect(await shownTexts(house(), next)).toEqual([WHOLE, WHOLE])
    },
    TEST_MS,
  )

  test(
    "the text that streams while the link is cut several times is the text of the model",
    async () => {
      const { model, client, link, say, ended } = house()
      model.on("cuts", [text(WHOLE, { chunks: 60, delayMs: 60 })])
      const promptId = await say("@@cuts@@", { channelType: "text", channelId: "cuts" })
      for (const length of [20, 150, 300]) {
        await client.until(() => client.answerTo(promptId).length > length, "streaming text")
        link.reset()
      }
      await ended(promptId)
      expect(await shownTexts(house(), promptId)).toEqual([WHOLE, WHOLE])
      expect(client.gaps()).toBe(0)
    },
    TEST_MS,
  )

  test(
    "a Slack message is one prompt, and the answer of the model arrives once in its thread",
    async () => {
      const { model, client, slack, url } = house()
      model.on("from-slack", [text("**Yes**, I am here.")])
      const event = {
        type: "event_callback",
        event: {
          type: "app_mention",
          user: "U1",
          text: "<@UBOT> @@from-slack@@",
          channel: "C1",
          ts: "17.5",
        },
      }
      const deliver = async (given: object) =>
        expect(
          (await fetch(slack.event(`${url}/channels/slack`, given), OWN_CONNECTION)).status,
        ).toBe(200)
      for (let delivery = 0; delivery < 2; delivery += 1) await deliver(event)
      await untilTrue(() => slack.posts.length > 0, "answer in Slack")
      const first = { channel: "C1", thread: "17.5", text: "*Yes*, I am here." }
      expect(slack.posts).toEqual([first])
      // The prompts of a thread are answered in order: a second answer would come before the answer to the next message.
      model.on("from-slack-again", [text("Still here.")])
      const words = "<@UBOT> @@from-slack-again@@"
      await deliver({
        ...event,
        event: { ...event.event, text: words, ts: "17.6", thread_ts: "17.5" },
      })
      await untilTrue(
        () => slack.posts.some((post) => post.text === "Still here."),
        "answer to the next message in Slack",
      )
      expect(slack.posts).toEqual([first, { ...first, text: "Still here." }])
      const prompts = client
        .messages()
        .filter(({ role, channel }) => role === "user" && channel === "slack:C1:17.5")
      expect(prompts).toHaveLength(2)
    },
    TEST_MS,
  )

  test(
    "a Telegram message with a photo is a prompt, and the answer of the model arrives in the chat",
    async () => {
      const { model, telegram, url } = house()
      telegram.addFile("p1", new Uint8Array(PIXEL))
      model.on("from-telegram", [text("A fine bird.")])
      const message = {
        message_id: 5,
        chat: { id: 42 },
        from: { id: 7, is_bot: false, first_name: "Ann" },
        caption: "@@from-telegram@@",
        photo: [{ file_id: "p1" }],
      }
      expect(
        (await fetch(telegram.update(`${url}/channels/telegram`, message), OWN_CONNECTION)).status,
      ).toBe(200)
      await untilTrue(() => telegram.posts.length > 0, "answer in Telegram")
      expect(telegram.posts).toEqual([{ chat: "42", topic: undefined, text: "A fine bird." }])
      const asked = model.requests.findLast(({ messages }) =>
        JSON.stringify(messages).includes("@@from-telegram@@"),
      )
      expect(JSON.stringify(asked?.messages)).toContain("image_url")
    },
    TEST_MS,
  )
}

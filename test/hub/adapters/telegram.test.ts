/** The Telegram adapter against a local server that speaks the Bot API. */
import { afterAll, describe, expect, test } from "bun:test"
import { SendError } from "../../../src/hub/session/chat-services.ts"
import { createTelegramAdapter } from "../../../src/hub/adapters/telegram.ts"
import { startTelegramApi, TELEGRAM_SECRET, TELEGRAM_TOKEN } from "../../kit/telegram-api.ts"

const api = startTelegramApi()
afterAll(api.stop)
const options = { botToken: TELEGRAM_TOKEN, secretToken: TELEGRAM_SECRET, apiUrl: api.url }
const adapter = createTelegramAdapter(options)
const to = "http://127.0.0.1/channels/telegram"
const message = (fields: object = {}) => ({
  message_id: 5,
  chat: { id: 42, type: "private" },
  from: { id: 7, is_bot: false, first_name: "Ada", last_name: "L" },
  date: 0,
  text: "hello",
  ...fields,
})

describe("Telegram updates", () => {
  test("a text message becomes a message of its chat", async () => {
    const { response, messages } = await adapter.receive(api.update(to, message()))
    expect(response.status).toBe(200)
    expect(messages).toEqual([
      {
        id: "telegram-42-5",
        channelId: "42",
        text: "hello",
        author: { id: "7", name: "Ada L" },
        files: [],
      },
    ])
  })

  test("a topic of a forum is a channel of its own", async () => {
    const { messages } = await adapter.receive(
      api.update(
        to,
        message({ chat: { id: -1001 }, message_thread_id: 9, is_topic_message: true }),
      ),
    )
    expect(messages[0]?.channelId).toBe("-1001:9")
  })

  test("a photo is read in its largest size, with the caption as text", async () => {
    api.addFile("big", new Uint8Array([9, 9]))
    const { messages } = await adapter.receive(
      api.update(
        to,
        message({
          text: undefined,
          caption: "look",
          photo: [{ file_id: "small" }, { file_id: "big" }],
        }),
      ),
    )
    expect(messages[0]?.text).toBe("look")
    expect(await messages[0]?.files[0]?.load()).toEqual(new Uint8Array([9, 9]))
  })

  test("a message of a bot is ignored", async () => {
    const { messages } = await adapter.receive(
      api.update(to, message({ from: { id: 1, is_bot: true, first_name: "B" } })),
    )
    expect(messages).toEqual([])
  })

  test("an update that is not a message is accepted, so that Telegram does not repeat it", async () => {
    const { response, messages } = await adapter.receive(api.update(to, { chat: "nonsense" }))
    expect(response.status).toBe(200)
    expect(messages).toEqual([])
  })

  test("a wrong secret token is refused with 401", async () => {
    const { response, messages } = await adapter.receive(api.update(to, message(), "wrong"))
    expect(response.status).toBe(401)
    expect(messages).toEqual([])
  })

  test("a missing secret token is refused with 401", async () => {
    const request = new Request(to, { method: "POST", body: JSON.stringify({ update_id: 1 }) })
    expect((await adapter.receive(request)).response.status).toBe(401)
  })
})

describe("sending to Telegram", () => {
  const failureOf = (run: Promise<unknown>): Promise<SendError> =>
    run.then(
      () => Promise.reject(new Error("the call was expected to fail")),
      (error: unknown) => error as SendError,
    )

  test("a text is sent to its chat and topic", async () => {
    await adapter.send("-1001:9", "done", "m1")
    expect(api.posts.at(-1)).toEqual({ chat: "-1001", topic: "9", text: "done" })
  })

  test("an image is sent as a photo with its caption", async () => {
    const bytes = new Uint8Array([1, 2])
    await adapter.attach("42", { name: "a.png", mime: "image/png", bytes, caption: "look" })
    expect(api.posts.at(-1)).toEqual({
      chat: "42",
      topic: undefined,
      text: "look",
      file: { kind: "photo", name: "a.png", bytes },
    })
  })

  test("another file is sent as a document", async () => {
    const bytes = new Uint8Array([3])
    await adapter.attach("42", { name: "a.csv", mime: "text/csv", bytes, caption: "" })
    expect(api.posts.at(-1)?.file).toEqual({ kind: "document", name: "a.csv", bytes })
  })

  test("a flood limit is retryable after the time that Telegram names", async () => {
    api.fail(429, { retryAfter: 3 })
    expect(await failureOf(adapter.send("42", "x", "m1"))).toMatchObject({
      retryable: true,
      retryAfterMs: 3000,
    })
  })

  test("a refused text is not retryable and the description is in the error", async () => {
    const error = await failureOf(adapter.send("42", "x".repeat(5000), "m1"))
    expect(error).toMatchObject({ retryable: false })
    expect(error.message).toBe("Telegram sendMessage: Bad Request: message is too long")
  })

  test("an unreachable API is retryable, and the error does not hold the token", async () => {
    const dead = createTelegramAdapter({ ...options, apiUrl: "http://127.0.0.1:1" })
    const error = await failureOf(dead.send("42", "x", "m1"))
    expect(error).toMatchObject({ retryable: true })
    expect(error.message).not.toContain(TELEGRAM_TOKEN)
  })

  test("a failed download does not show the token", async () => {
    const { messages } = await adapter.receive(
      api.update(to, message({ document: { file_id: "gone" } })),
    )
    const loading = messages[0]?.files[0]?.load() ?? Promise.resolve(new Uint8Array())
    const error = await failureOf(loading)
    expect(error.message).toBe("Telegram getFile: Bad Request: invalid file_id")
  })
})

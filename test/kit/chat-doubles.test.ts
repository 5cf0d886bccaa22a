/** The doubles of Slack and Telegram speak the real APIs: the official clients work against them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { ErrorCode, WebClient } from "@slack/web-api"
import { Api, GrammyError, InputFile } from "grammy"
import { PNG } from "./programs.ts"
import { SLACK_TOKEN, type SlackApi, startSlackApi } from "./slack-api.ts"
import { startTelegramApi, TELEGRAM_TOKEN, type TelegramApi } from "./telegram-api.ts"

describe("the double of Slack and Slack's own client", () => {
  let slack: SlackApi
  let client: WebClient
  beforeAll(() => {
    slack = startSlackApi()
    client = new WebClient(SLACK_TOKEN, {
      slackApiUrl: `${slack.apiUrl}/`,
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
    })
  })
  afterAll(() => slack.stop())

  test("Slack's client posts a message into a thread", async () => {
    const sent = await client.apiCall("chat.postMessage", {
      channel: "C1",
      thread_ts: "17.1",
      text: "hello",
    })
    expect(sent.ok).toBeTrue()
    expect(sent).toMatchObject({ ts: expect.stringMatching(/^\d+\.\d+$/) })
    expect(slack.posts.at(-1)).toEqual({ channel: "C1", thread: "17.1", text: "hello" })
  })

  test("Slack's client uploads a file with a comment", async () => {
    await client.filesUploadV2({
      channel_id: "C1",
      thread_ts: "17.1",
      initial_comment: "a dot",
      file: PNG,
      filename: "dot.png",
    })
    const upload = slack.uploads.at(-1)
    expect(upload).toMatchObject({ channel: "C1", thread: "17.1", text: "a dot" })
    expect(Buffer.from(upload?.bytes ?? [])).toEqual(PNG)
  })

  test("Slack's client reads an error of the platform and a rate limit", async () => {
    const unknown = client.apiCall("chat.postMessage", { channel: "nowhere", text: "hello" })
    expect(await unknown.catch((error: unknown) => error)).toMatchObject({
      code: ErrorCode.PlatformError,
      data: { ok: false, error: "channel_not_found" },
    })
    slack.fail({ status: 429, retryAfter: 30 })
    const limited = client.apiCall("chat.postMessage", { channel: "C1", text: "hello" })
    expect(await limited.catch((error: unknown) => error)).toMatchObject({
      code: ErrorCode.RateLimitedError,
      retryAfter: 30,
    })
  })

  test("Slack's client with another token is refused", async () => {
    const stranger = new WebClient("xoxb-other", { slackApiUrl: `${slack.apiUrl}/` })
    expect(await stranger.auth.test().catch((error: unknown) => error)).toMatchObject({
      data: { error: "invalid_auth" },
    })
  })
})

describe("the double of Telegram and grammY", () => {
  let telegram: TelegramApi
  let api: Api
  beforeAll(() => {
    telegram = startTelegramApi()
    api = new Api(TELEGRAM_TOKEN, { apiRoot: telegram.url })
  })
  afterAll(() => telegram.stop())

  test("grammY reads the bot and sends a message into a topic", async () => {
    expect(await api.getMe()).toMatchObject({ is_bot: true, username: "piper_bot" })
    await api.sendMessage(-1007, "hello", { message_thread_id: 3 })
    expect(telegram.posts.at(-1)).toEqual({ chat: "-1007", topic: "3", text: "hello" })
  })

  test("grammY sends a photo with a caption", async () => {
    await api.sendPhoto(42, new InputFile(PNG, "dot.png"), { caption: "a dot" })
    const post = telegram.posts.at(-1)
    expect(post).toMatchObject({ chat: "42", text: "a dot", file: { kind: "photo" } })
    expect(Buffer.from(post?.file?.bytes ?? [])).toEqual(PNG)
  })

  test("grammY reads a refusal and a rate limit", async () => {
    const long = api.sendMessage(42, "x".repeat(4097))
    const refused = await long.catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(GrammyError)
    expect(refused).toMatchObject({ error_code: 400 })
    telegram.fail(429, { retryAfter: 7 })
    const limited = await api.sendMessage(42, "hello").catch((error: unknown) => error)
    expect(limited).toMatchObject({ error_code: 429, parameters: { retry_after: 7 } })
  })
})

/** The Slack adapter against a local server that speaks Slack's HTTP API. */
import { afterAll, describe, expect, test } from "bun:test"
import { SendError } from "../../../src/hub/session/chat-services.ts"
import { createSlackAdapter } from "../../../src/hub/adapters/slack.ts"
import { fromSlack, toSlack } from "../../../src/hub/adapters/slack-text.ts"
import { SLACK_SECRET, SLACK_TOKEN, startSlackApi } from "../../kit/slack-api.ts"

const api = startSlackApi()
afterAll(api.stop)
const adapter = createSlackAdapter({
  signingSecret: SLACK_SECRET,
  botToken: SLACK_TOKEN,
  apiUrl: api.apiUrl,
  now: Date.now,
})
const to = "http://127.0.0.1/channels/slack"
const message = (fields: object = {}) => ({
  type: "event_callback",
  event: { type: "message", user: "U1", text: "hello", channel: "C1", ts: "1.2", ...fields },
})

describe("Slack events", () => {
  test("a signed URL verification is answered with its challenge", async () => {
    const { response, messages } = await adapter.receive(
      api.event(to, { type: "url_verification", challenge: "abc" }),
    )
    expect(await response.json()).toEqual({ challenge: "abc" })
    expect(messages).toEqual([])
  })

  test("a message in a channel becomes a message of its thread", async () => {
    const { response, messages } = await adapter.receive(api.event(to, message()))
    expect(response.status).toBe(200)
    expect(messages).toEqual([
      {
        id: "slack-C1-1.2",
        channelId: "C1:1.2",
        text: "hello",
        author: { id: "U1", name: "U1" },
        files: [],
      },
    ])
  })

  test("a reply in a thread belongs to the thread's channel", async () => {
    const { messages } = await adapter.receive(api.event(to, message({ thread_ts: "1.1" })))
    expect(messages[0]?.channelId).toBe("C1:1.1")
  })

  test("a direct message belongs to the conversation, not to a thread", async () => {
    const { messages } = await adapter.receive(
      api.event(to, message({ channel: "D7", channel_type: "im" })),
    )
    expect(messages[0]?.channelId).toBe("D7")
  })

  test("a mention that arrives as message and as app_mention has one id", async () => {
    const first = await adapter.receive(api.event(to, message({ text: "<@UBOT> go" })))
    const second = await adapter.receive(
      api.event(to, message({ type: "app_mention", text: "<@UBOT> go" })),
    )
    expect(first.messages[0]?.id).toBe(second.messages[0]?.id ?? "")
    expect(first.messages[0]?.text).toBe("go")
  })

  test.each([
    ["of a bot", { bot_id: "B1" }],
    ["that is an edit", { subtype: "message_changed" }],
    ["without a user", { user: undefined }],
    ["without text and files", { text: " " }],
  ])("a message %s is ignored", async (_kind, fields) => {
    expect((await adapter.receive(api.event(to, message(fields)))).messages).toEqual([])
  })

  test.each([
    ["signed with another secret", { secret: "another" }],
    ["signed six minutes ago", { at: Math.floor(Date.now() / 1000) - 360 }],
    ["signed six minutes ahead", { at: Math.floor(Date.now() / 1000) + 360 }],
  ])("a request %s is refused with 401", async (_kind, options) => {
    const { response, messages } = await adapter.receive(api.event(to, message(), options))
    expect(response.status).toBe(401)
    expect(messages).toEqual([])
  })

  test("a request without a signature is refused with 401", async () => {
    const request = new Request(to, { method: "POST", body: JSON.stringify(message()) })
    expect((await adapter.receive(request)).response.status).toBe(401)
  })

  test("a changed body is refused with 401", async () => {
    const signed = api.event(to, message())
    const request = new Request(to, {
      method: "POST",
      headers: signed.headers,
      body: JSON.stringify(message({ text: "something else" })),
    })
    expect((await adapter.receive(request)).response.status).toBe(401)
  })

  test("a body above one megabyte is refused with 413", async () => {
    const { response } = await adapter.receive(
      api.event(to, message({ text: "x".repeat(1024 * 1024) })),
    )
    expect(response.status).toBe(413)
  })

  test("a private file is downloaded with the bot's token", async () => {
    const url = api.addFile("notes.txt", new TextEncoder().encode("inside"))
    const { messages } = await adapter.receive(
      api.event(
        to,
        message({
          subtype: "file_share",
          files: [{ name: "notes.txt", mimetype: "text/plain", url_private: url }],
        }),
      ),
    )
    const [file] = messages[0]?.files ?? []
    expect(file?.mime).toBe("text/plain")
    expect(new TextDecoder().decode(await file?.load())).toBe("inside")
  })

  test("a file on a host that is not Slack's is left out, so the token stays with Slack", async () => {
    const { messages } = await adapter.receive(
      api.event(to, message({ files: [{ name: "x", url_private: "https://evil.example/x" }] })),
    )
    expect(messages[0]?.files).toEqual([])
  })
})

describe("sending to Slack", () => {
  test("a text is posted to its thread", async () => {
    await adapter.send("C1:1.1", "**done** <!channel>", "m1")
    expect(api.posts.at(-1)).toEqual({
      channel: "C1",
      thread: "1.1",
      text: "*done* &lt;!channel&gt;",
    })
  })

  test("a file is uploaded to its thread with its caption", async () => {
    const bytes = new Uint8Array([1, 2, 3])
    await adapter.attach("C1:1.1", { name: "a.png", mime: "image/png", bytes, caption: "look" })
    expect(api.uploads.at(-1)).toEqual({
      channel: "C1",
      thread: "1.1",
      text: "look",
      title: "a.png",
      mime: "image/png",
      bytes,
    })
  })

  const failureOf = (run: Promise<void>): Promise<SendError> =>
    run.then(
      () => Promise.reject(new Error("the call was expected to fail")),
      (error: unknown) => error as SendError,
    )

  test("a rate limit is retryable after the time that Slack names", async () => {
    api.fail({ status: 429, retryAfter: 7 })
    expect(await failureOf(adapter.send("C1", "x", "m1"))).toMatchObject({
      retryable: true,
      retryAfterMs: 7000,
    })
  })

  test("a server error is retryable", async () => {
    api.fail({ status: 503 })
    expect(await failureOf(adapter.send("C1", "x", "m1"))).toMatchObject({ retryable: true })
  })

  test("an unknown channel is not retryable and is named in the error", async () => {
    const error = await failureOf(adapter.send("nowhere", "x", "m1"))
    expect(error).toMatchObject({ retryable: false })
    expect(error.message).toBe("Slack chat.postMessage: channel_not_found")
  })

  test("an error never holds the token", async () => {
    const dead = createSlackAdapter({
      signingSecret: SLACK_SECRET,
      botToken: SLACK_TOKEN,
      apiUrl: "http://127.0.0.1:1/api",
      now: Date.now,
    })
    const error = await failureOf(dead.send("C1", "x", "m1"))
    expect(error).toMatchObject({ retryable: true })
    expect(error.message).not.toContain(SLACK_TOKEN)
  })
})

describe("Slack's text notation", () => {
  test.each([
    ["**bold**", "*bold*"],
    ["# Title", "*Title*"],
    ["[docs](https://a.example/x)", "<https://a.example/x|docs>"],
    ["`**code**`", "`**code**`"],
    ["```\n**code**\n```", "```\n**code**\n```"],
    ["a < b & c", "a &lt; b &amp; c"],
    ["<@U1>", "&lt;@U1&gt;"],
  ])("Markdown %j is sent as %j", (markdown, slack) => {
    expect(toSlack(markdown)).toBe(slack)
  })

  test.each([
    ["<@UBOT> do it", "do it"],
    ["see <https://a.example>", "see https://a.example"],
    ["see <https://a.example|here>", "see here (https://a.example)"],
    ["ask <@U2|bo> in <#C2|general>", "ask @bo in #general"],
    ["1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"],
    ["&amp;lt;", "&lt;"],
  ])("Slack text %j is read as %j", (slack, text) => {
    expect(fromSlack(slack)).toBe(text)
  })
})

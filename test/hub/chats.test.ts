/**
 * Slack and Telegram at the hub, on both hosts: messages come in as prompts, replies leave in order or end visibly. The tests of a host
 * share its session, its runner and the services; each has a channel of its own.
 */
import { Database } from "bun:sqlite"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { freePort } from "../kit/free-port.ts"
import { silentLog } from "../kit/log.ts"
import { SLACK_SECRET, SLACK_TOKEN, type SlackApi, startSlackApi } from "../kit/slack-api.ts"
import {
  startTelegramApi,
  TELEGRAM_SECRET,
  TELEGRAM_TOKEN,
  type TelegramApi,
} from "../kit/telegram-api.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { type FakeRunner, startFakeRunner } from "./kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "./kit/hub.ts"
import { untilState, untilTrue } from "../kit/until-true.ts"
import { bundleWorker, startWorkerd } from "./kit/workerd.ts"

interface Host {
  readonly url: string
  /** Rows of a session. */
  readonly rows: (session: string, query: string) => Promise<readonly unknown[]>
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
}

const hosts: Readonly<
  Record<string, (folder: string, variables: Record<string, string>) => Promise<Host>>
> = {
  bun: async (folder, environment) => {
    const start = (port: number) =>
      startLocalHub({
        stateDir: join(folder, "state"),
        workDir: folder,
        port,
        environment: { PATH: "/usr/bin:/bin", ...environment },
        clock: systemClock,
        log: silentLog,
        clientToken: CLIENT_TOKEN,
      })
    let hub = await start(freePort())
    return {
      url: hub.url,
      rows: async (session, query) => {
        const file = join(folder, "state", "hub", "sessions", `${session}.db`)
        const db = new Database(file, { readonly: true })
        try {
          return db.query(query).all()
        } finally {
          db.close()
        }
      },
      restart: async () => {
        await hub.stop()
        hub = await start(hub.port)
      },
      stop: () => hub.stop(),
    }
  },
  workerd: async (_folder, variables) => startWorkerd(await bundleWorker(), variables),
}

const slackEvent = (ts: string, text: string, channel = "C1") => ({
  type: "event_callback",
  event: { type: "app_mention", user: "U1", text, channel, ts },
})

describe.each(Object.keys(hosts))("chat services with the hub on %s", (name) => {
  let folder: string
  let slack: SlackApi
  let telegram: TelegramApi
  let host: Host
  let runner: FakeRunner
  let client: TestClient

  const put = (session: string) =>
    fetch(`${host.url}/sessions/${session}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
    })
  const receive = (event: object) => fetch(slack.event(`${host.url}/channels/slack`, event))
  const reply = (channelId: string, message: string, channelType = "slack") =>
    runner.uplink.request("channel-reply", { channelType, channelId, message })
  const postsTo = (channel: string) =>
    slack.posts.filter((post) => post.channel === channel).map(({ text }) => text)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "chats-"))
    slack = startSlackApi()
    telegram = startTelegramApi()
    host = await hosts[name]!(folder, {
      SLACK_SIGNING_SECRET: SLACK_SECRET,
      SLACK_BOT_TOKEN: SLACK_TOKEN,
      SLACK_API_URL: slack.apiUrl,
      SLACK_SESSION: "s1",
      SLACK_CHANNELS: "C2, C3,C4,C8,C32",
      TELEGRAM_BOT_TOKEN: TELEGRAM_TOKEN,
      TELEGRAM_SECRET_TOKEN: TELEGRAM_SECRET,
      TELEGRAM_API_URL: telegram.url,
      TELEGRAM_SESSION: "gone",
    })
    await put("s1")
    runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/s1/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, "runner"),
    })
    client = await connectClient(host.url, CLIENT_TOKEN)
  })
  afterAll(async () => {
    client.close()
    await runner.stop()
    await host.stop()
    await slack.stop()
    await telegram.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** Ends the turn of a prompt as the runner does. */
  const endTurn = (messageId: string, channelId: string, end: object) => {
    const turn = { messageId, channelType: "slack", channelId }
    runner.send({ type: "message.create", turnId: `turn-${messageId}`, ...turn })
    runner.send({
      type: "message.finalize",
      turnId: `turn-${messageId}`,
      reason: "end_turn",
      ...end,
      ...turn,
    })
    runner.send({ type: "complete", ...turn })
    runner.send({ type: "agentStatus", status: "idle", ...turn })
  }
  const promptOf = async (id: string) => {
    await untilTrue(() => runner.prompts.some(({ messageId }) => messageId === id), `prompt ${id}`)
    return runner.prompts.find(({ messageId }) => messageId === id)
  }

  test("a file that the agent shows in a chat's channel is uploaded there once, under its name", async () => {
    const event = { type: "message", channel_type: "im", user: "U1", text: "show me", ts: "7.1" }
    await receive({ type: "event_callback", event: { ...event, channel: "D7" } })
    await promptOf("slack-D7-7.1")
    const content = "Sightings,3\n"
    const show = (path: string) => {
      const sha256 = new Bun.CryptoHasher("sha256").update(content).digest("hex")
      const files = [{ path, sha256, data: btoa(content) }]
      runner.send({ type: "artifacts", channelType: "slack", channelId: "D7", files })
    }
    show("tables/birds.csv")
    show("tables/birds.csv")
    show("last.csv")
    const sent = () => slack.uploads.filter(({ channel }) => channel === "D7")
    await untilTrue(() => sent().some(({ title }) => title === "last.csv"), "the last upload")
    expect(sent().map(({ title }) => title)).toEqual(["birds.csv", "last.csv"])
    expect(Buffer.from(sent()[0]?.bytes ?? []).toString()).toBe(content)
  })

  test("a signed event is one prompt with its author and file, however often Slack repeats it", async () => {
    const url = slack.addFile("notes.txt", new TextEncoder().encode("hello"))
    const event = {
      type: "event_callback",
      event: {
        type: "message",
        subtype: "file_share",
        channel_type: "im",
        user: "U1",
        text: "read this",
        channel: "D1",
        ts: "1.1",
        files: [{ mimetype: "text/plain", name: "notes.txt", url_private: url }],
      },
    }
    for (let delivery = 0; delivery < 3; delivery += 1)
      expect((await receive(event)).status).toBe(200)
    expect(await promptOf("slack-D1-1.1")).toMatchObject({
      content: "read this",
      channelType: "slack",
      channelId: "D1",
      authorId: "U1",
      attachments: [
        {
          mime: "text/plain",
          filename: "notes.txt",
          url: `data:text/plain;base64,${btoa("hello")}`,
        },
      ],
    })
    endTurn("slack-D1-1.1", "D1", { finalText: "It says hello." })
    await untilTrue(() => postsTo("D1").length > 0, "answer")
    expect(postsTo("D1")).toEqual(["It says hello."])
    expect(runner.prompts.filter(({ messageId }) => messageId === "slack-D1-1.1")).toHaveLength(1)
  })

  test("an event with a wrong signature is refused and is no prompt", async () => {
    const forged = slack.event(`${host.url}/channels/slack`, slackEvent("6.6", "forged"), {
      secret: "another secret",
    })
    expect((await fetch(forged)).status).toBe(401)
    await receive(slackEvent("6.7", "real", "C6"))
    await promptOf("slack-C6-6.7")
    expect(runner.prompts.some(({ content }) => content === "forged")).toBeFalse()
  })

  test("a service that does not exist is not found", async () => {
    const response = await fetch(`${host.url}/channels/irc`, { method: "POST", body: "{}" })
    expect(response.status).toBe(404)
  })

  test("a long reply is split and arrives in order, also when Slack fails in between", async () => {
    const words = Array.from({ length: 1500 }, (_, index) => `word-${index}`)
    slack.fail({ status: 503 }, "C2")
    await reply("C2", words.join(" "))
    await untilTrue(() => postsTo("C2").join(" ").endsWith("word-1499"), "last word")
    expect(postsTo("C2").length).toBeGreaterThan(2)
    expect(postsTo("C2").join(" ").split(" ")).toEqual(words)
  })

  test("a rate limit is waited for as long as Slack asks", async () => {
    const from = Date.now()
    slack.fail({ status: 429, retryAfter: 1 }, "C3")
    await reply("C3", "patience")
    await untilTrue(() => postsTo("C3").length > 0, "message after the rate limit")
    expect(Date.now() - from).toBeGreaterThanOrEqual(950)
    expect(postsTo("C3")).toEqual(["patience"])
  })

  test("a reply that Slack refuses for good ends as a system message, and later replies are sent", async () => {
    slack.fail({ error: "is_archived" }, "C4")
    await reply("C4", "lost")
    await client.until(
      () =>
        client
          .messages()
          .some(({ role, error }) => role === "system" && error?.includes("is_archived") === true),
      "system message",
    )
    await reply("C4", "found")
    await untilTrue(() => postsTo("C4").length > 0, "later reply")
    expect(postsTo("C4")).toEqual(["found"])
  })

  test("the final text is not sent when the agent has replied in the channel itself", async () => {
    await receive(slackEvent("5.1", "hi", "C5"))
    await promptOf("slack-C5-5.1")
    await reply("C5:5.1", "My own words.")
    endTurn("slack-C5-5.1", "C5:5.1", { finalText: "I have replied." })
    await receive(slackEvent("5.2", "and now?", "C5"))
    await promptOf("slack-C5-5.2")
    endTurn("slack-C5-5.2", "C5:5.2", { finalText: "Now this." })
    await untilTrue(() => postsTo("C5").length > 1, "second answer")
    expect(postsTo("C5")).toEqual(["My own words.", "Now this."])
  })

  test("the final text follows a reply that announces another message", async () => {
    await receive(slackEvent("15.1", "hi", "C15"))
    await promptOf("slack-C15-15.1")
    const first = { channelType: "slack", channelId: "C15:15.1", message: "One moment." }
    await runner.uplink.request("channel-reply", { ...first, followUp: true })
    endTurn("slack-C15-15.1", "C15:15.1", { finalText: "Here it is." })
    await untilTrue(() => postsTo("C15").length > 1, "final text")
    expect(postsTo("C15")).toEqual(["One moment.", "Here it is."])
  })

  test("a failed turn is told to the chat", async () => {
    await receive(slackEvent("7.1", "hi", "C7"))
    await promptOf("slack-C7-7.1")
    endTurn("slack-C7-7.1", "C7:7.1", { reason: "error", error: "no model is available" })
    await untilTrue(() => postsTo("C7").length > 0, "failure in the chat")
    expect(postsTo("C7")).toEqual(["The turn failed: no model is available"])
  })

  test("a reply to a service that is down is sent after a restart of the hub", async () => {
    slack.fail({ status: 503 }, "C8")
    await reply("C8", "still here")
    // The result of the call is recorded: chat-crash.test.ts has a host that dies before.
    const failed = "SELECT id FROM deliveries WHERE lane = 'chat:slack:C8' AND attempts = 1"
    await untilState(
      () => host.rows("s1", failed),
      (rows) => rows.length === 1,
      "recorded failure of the first attempt",
    )
    await host.restart()
    // The restart has ended the client's connection.
    client.close()
    client = await connectClient(host.url, CLIENT_TOKEN)
    await untilTrue(() => postsTo("C8").length > 0, "message after the restart")
    expect(postsTo("C8")).toEqual(["still here"])
  })

  test("a question of the agent is asked in the chat, and the next message there is its answer", async () => {
    await receive(slackEvent("20.1", "plan it", "C20"))
    await promptOf("slack-C20-20.1")
    const turn = { messageId: "slack-C20-20.1", channelType: "slack", channelId: "C20:20.1" }
    runner.send({
      type: "question",
      questionId: "q-20",
      text: "Which branch?",
      options: ["main", "next"],
      ...turn,
    })
    await untilTrue(() => postsTo("C20").length > 0, "question in the chat")
    expect(postsTo("C20")).toEqual(["Which branch?\n\nReply with one of these:\n- main\n- next"])
    const said = { ...slackEvent("20.2", "<@UBOT> next", "C20").event, thread_ts: "20.1" }
    await receive({ type: "event_callback", event: said })
    await untilTrue(() => runner.frames.some(({ type }) => type === "answer"), "answer")
    expect(runner.frames.find(({ type }) => type === "answer")).toMatchObject({
      questionId: "q-20",
      answer: "next",
    })
    expect(runner.prompts.some(({ content }) => content === "next")).toBeFalse()
    endTurn("slack-C20-20.1", "C20:20.1", { finalText: "On next." })
    await untilTrue(() => postsTo("C20").length > 1, "answer of the turn")
    expect(postsTo("C20").slice(1)).toEqual(["On next."])
  })

  test("a permission is asked in the chat, and only a clear reply decides it", async () => {
    await receive(slackEvent("21.1", "clean up", "C21"))
    await promptOf("slack-C21-21.1")
    const title = "Run rm -r build"
    runner.send({
      type: "permission",
      turnId: "turn-slack-C21-21.1",
      permissionId: "p-21",
      title,
      patterns: ["rm *"],
      messageId: "slack-C21-21.1",
      channelType: "slack",
      channelId: "C21:21.1",
    })
    const hint = "Reply yes (this time), always or no."
    await untilTrue(() => postsTo("C21").length > 0, "permission in the chat")
    expect(postsTo("C21")).toEqual([`The agent asks for permission: ${title}\n- rm *\n${hint}`])
    const say = (ts: string, text: string) => {
      const event = { ...slackEvent(ts, `<@UBOT> ${text}`, "C21").event, thread_ts: "21.1" }
      return receive({ type: "event_callback", event })
    }
    const decided = () => runner.frames.filter(({ type }) => type === "permission-reply")
    await say("21.2", "what does that delete?")
    await untilTrue(() => postsTo("C21").length > 1, "hint in the chat")
    expect(postsTo("C21").at(-1)).toBe(hint)
    expect(decided()).toEqual([])
    await say("21.3", "No.")
    await untilTrue(() => decided().length > 0, "decision")
    expect(decided()).toEqual([
      expect.objectContaining({ permissionId: "p-21", reply: "reject" }),
    ] as never)
    endTurn("slack-C21-21.1", "C21:21.1", { finalText: "Left as it is." })
    await promptOf("slack-C21-21.2")
  })

  test("an agent writes to the chats of its session and to the listed channels, and nowhere else", async () => {
    const refusalOf = (request: Promise<unknown>) => request.then(() => "not refused", String)
    await receive(slackEvent("30.1", "hi", "C30"))
    await promptOf("slack-C30-30.1")
    expect(await refusalOf(reply("C31", "to strangers"))).toContain(
      "slack:C31 is not a chat of this session: see list_channels. The operator allows more with SLACK_CHANNELS",
    )
    expect(await refusalOf(reply("C30:9.9", "another thread"))).toContain("is not a chat of this")
    expect(await refusalOf(reply("#general", "to all", "irc"))).toContain(
      "there is no chat service irc: the hub is connected to slack, telegram",
    )
    await reply("C30:30.1", "to its own thread")
    await reply("C32:30.2", "to a thread of a listed channel")
    await untilTrue(() => postsTo("C32").includes("to a thread of a listed channel"), "last reply")
    await untilTrue(() => postsTo("C30").length > 0, "reply in the thread")
    expect(postsTo("C30")).toEqual(["to its own thread"])
    expect(postsTo("C31")).toEqual([])
    const said = client.messages().flatMap(({ parts }) => parts.map(({ text }) => text))
    expect(said).not.toContain("to strangers")
    expect(said).not.toContain("to all")
  })

  test("a runner that names a chat in its frames writes nothing there and may not reply there", async () => {
    const chat = { channelType: "slack", channelId: "C90" }
    await receive(slackEvent("33.1", "hi", "C33"))
    await promptOf("slack-C33-33.1")
    const turn = { turnId: "stray", messageId: "slack-C33-33.1", ...chat }
    runner.send({ type: "message.create", ...turn })
    runner.send({ type: "question", questionId: "stray-question", text: "Spam?", ...chat })
    const permission = { permissionId: "stray-permission", tool: "x", title: "Spam", patterns: [] }
    runner.send({ type: "permission", ...permission, ...chat })
    runner.send({ type: "message.finalize", reason: "end_turn", finalText: "spam", ...turn })
    const refused = reply("C90", "spam").then(() => "not refused", String)
    expect(await refused).toContain("slack:C90 is not a chat of this session")
    // A message to it would be a row or sent, because its frames came before this reply.
    await reply("C33:33.1", "to its own thread")
    await untilTrue(() => postsTo("C33").includes("to its own thread"), "reply in the thread")
    expect(
      await host.rows("s1", "SELECT * FROM deliveries WHERE lane LIKE 'chat:slack:C90%'"),
    ).toEqual([])
    expect(postsTo("C90")).toEqual([])
  })

  test("a message to a session that does not exist is answered in the chat", async () => {
    const message = {
      message_id: 1,
      chat: { id: 9 },
      from: { id: 7, is_bot: false, first_name: "Ann" },
      text: "hello?",
    }
    const response = await fetch(telegram.update(`${host.url}/channels/telegram`, message))
    expect(response.status).toBe(200)
    expect(telegram.posts).toEqual([
      { chat: "9", topic: undefined, text: "This session has ended and takes no messages." },
    ])
  })
})

describe.each(Object.keys(hosts))("without chat services with the hub on %s", (name) => {
  test("the routes are not found, and a reply is refused with what to set", async () => {
    const folder = await mkdtemp(join(tmpdir(), "no-chats-"))
    const host = await hosts[name]!(folder, { SLACK_SIGNING_SECRET: SLACK_SECRET })
    await fetch(`${host.url}/sessions/s1`, {
      method: "PUT",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
    })
    const runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/s1/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, "runner"),
    })
    onTestFinished(async () => {
      await runner.stop()
      await host.stop()
      await rm(folder, { recursive: true, force: true })
    })
    for (const chat of ["slack", "telegram"]) {
      const response = await fetch(`${host.url}/channels/${chat}`, { method: "POST", body: "{}" })
      expect(response.status).toBe(404)
    }
    const refused = await runner.uplink
      .request("channel-reply", { channelType: "slack", channelId: "C1", message: "hello" })
      .catch(String)
    expect(refused).toContain("the hub is not connected to slack: set SLACK_BOT_TOKEN")
  })
})

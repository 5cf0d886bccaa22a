/** A chat service that has done its work and whose answer is lost: no message is sent twice, and none is lost silently. */
import { afterEach, expect, test } from "bun:test"
import { configureChats } from "../../src/hub/adapters/configured-chats.ts"
import { openBunSql } from "../../src/hub/hosts/bun/sql.ts"
import { createManualClock } from "../kit/clock.ts"
import { SLACK_SECRET, SLACK_TOKEN, startSlackApi } from "../kit/slack-api.ts"
import { startTcpProxy } from "../kit/tcp-proxy.ts"
import { startTelegramApi, TELEGRAM_SECRET, TELEGRAM_TOKEN } from "../kit/telegram-api.ts"
import { createCore } from "./kit/core.ts"
import { untilTrue } from "../kit/until-true.ts"

const cleanup: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})

const start = async () => {
  const slack = startSlackApi()
  const telegram = startTelegramApi()
  cleanup.push(slack.stop, telegram.stop)
  const slackProxy = await startTcpProxy(Number(new URL(slack.apiUrl).port))
  const telegramProxy = await startTcpProxy(Number(new URL(telegram.url).port))
  cleanup.push(slackProxy.stop, telegramProxy.stop)
  const chats = configureChats({
    environment: {
      SLACK_SIGNING_SECRET: SLACK_SECRET,
      SLACK_BOT_TOKEN: SLACK_TOKEN,
      SLACK_API_URL: `http://127.0.0.1:${slackProxy.port}/api`,
      TELEGRAM_SECRET_TOKEN: TELEGRAM_SECRET,
      TELEGRAM_BOT_TOKEN: TELEGRAM_TOKEN,
      TELEGRAM_API_URL: `http://127.0.0.1:${telegramProxy.port}`,
    },
    now: Date.now,
    defaultSession: () => "s1",
  })
  const core = createCore(
    openBunSql(":memory:"),
    createManualClock(Date.now()),
    undefined,
    new Map(),
    { chats: chats.port },
  )
  const say = (channel: string, content: string) =>
    core.session.note({ id: content, role: "assistant", content, channel, reply: true })
  /** Until every message has ended; the time between attempts passes at once. */
  const settled = () =>
    untilTrue(() => {
      core.clock.advance(30_000)
      return core.sql.all("SELECT id FROM deliveries").length === 0
    }, "the end of every message")
  const problems = () =>
    core.session
      .snapshot()
      .messages.flatMap(({ role, error = "" }) => (role === "system" ? [error] : []))
  return { slack, telegram, slackProxy, telegramProxy, core, say, settled, problems }
}

test("a message to Slack whose answer is lost is found in its thread and not posted again", async () => {
  const { slack, slackProxy, say, settled, problems } = await start()
  for (const channel of ["slack:C1:1.1", "slack:D1"]) {
    slack.loseAnswer(slackProxy.reset)
    say(channel, `for ${channel}`)
    await settled()
  }
  expect(slack.posts.map(({ text }) => text)).toEqual(["for slack:C1:1.1", "for slack:D1"])
  expect(slack.calls).toEqual([
    "chat.postMessage",
    "conversations.replies",
    "chat.postMessage",
    "conversations.history",
  ])
  expect(problems()).toEqual([])
})

test("a message that did not reach Slack is posted once, also after a look in the thread", async () => {
  const { core, slack, slackProxy, say, settled, problems } = await start()
  slackProxy.setDown(true)
  say("slack:C1:1.1", "later")
  await untilTrue(() => core.reports.length > 0, "a failed call")
  slackProxy.setDown(false)
  await settled()
  expect(slack.posts.map(({ text }) => text)).toEqual(["later"])
  expect(problems()).toEqual([])
})

test("where the app may not read the conversation, a lost answer ends visibly", async () => {
  const { slack, slackProxy, say, settled, problems } = await start()
  slack.loseAnswer(() => {
    slack.fail({ error: "missing_scope" })
    slackProxy.reset()
  })
  say("slack:C1:1.1", "once")
  await settled()
  expect(slack.posts).toHaveLength(1)
  expect(problems()).toEqual([
    "a message to slack was sent and no answer came: the message may not have arrived and is not sent again",
  ])
})

test("a message to Telegram whose answer is lost is not sent again and ends visibly; the next one is sent", async () => {
  const { telegram, telegramProxy, say, settled, problems } = await start()
  telegram.loseAnswer(telegramProxy.reset)
  say("telegram:42", "once")
  say("telegram:42", "next")
  await settled()
  expect(telegram.posts.map(({ text }) => text)).toEqual(["once", "next"])
  expect(problems()).toEqual([
    "a message to telegram was sent and no answer came: the message may not have arrived and is not sent again",
  ])
})

test("a refusal of the chat service is no lost answer: the message is sent again", async () => {
  const { core, telegram, say, settled, problems } = await start()
  telegram.fail(502)
  say("telegram:42", "after an error")
  await settled()
  expect(telegram.posts.map(({ text }) => text)).toEqual(["after an error"])
  expect(core.reports).toEqual(["hub.delivery-failed"])
  expect(problems()).toEqual([])
})

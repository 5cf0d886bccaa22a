/** Settings of the chat services that the session agent of `up` or `serve` talks to. A service without both secrets is off. */
import { someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

const apiUrl = urlWith("must be an http:// or https:// URL", (url) =>
  /^https?:$/.test(url.protocol),
).optional()

export const chatSettings = {
  slackSigningSecret: {
    env: "SLACK_SIGNING_SECRET",
    reaches: [],
    doc: "signing secret of the Slack app; its events go to /channels/slack of the session agent",
    schema: someText.optional(),
    secret: true,
  },
  slackBotToken: {
    env: "SLACK_BOT_TOKEN",
    reaches: [],
    doc: "bot token of the Slack app (xoxb-...)",
    schema: someText.optional(),
    secret: true,
  },
  slackSession: {
    env: "SLACK_SESSION",
    reaches: [],
    doc: "session that takes Slack messages; `serve` needs it; default of `up`: its first session",
    schema: someText.optional(),
  },
  slackChannels: {
    env: "SLACK_CHANNELS",
    reaches: [],
    doc: "channels that agents may write to without a message from there: ids, separated by commas",
    schema: someText.optional(),
  },
  slackApiUrl: {
    env: "SLACK_API_URL",
    reaches: [],
    doc: "address of Slack's Web API; default: https://slack.com/api",
    schema: apiUrl,
  },
  telegramBotToken: {
    env: "TELEGRAM_BOT_TOKEN",
    reaches: [],
    doc: "token of the Telegram bot; its webhook is /channels/telegram of the session agent",
    schema: someText.optional(),
    secret: true,
  },
  telegramSecretToken: {
    env: "TELEGRAM_SECRET_TOKEN",
    reaches: [],
    doc: "secret_token that was given to Telegram's setWebhook",
    schema: someText.optional(),
    secret: true,
  },
  telegramSession: {
    env: "TELEGRAM_SESSION",
    reaches: [],
    doc: "session that takes Telegram messages; `serve` needs it; default of `up`: its first session",
    schema: someText.optional(),
  },
  telegramChannels: {
    env: "TELEGRAM_CHANNELS",
    reaches: [],
    doc: "chats that agents may write to without a message from there: ids, separated by commas",
    schema: someText.optional(),
  },
  telegramApiUrl: {
    env: "TELEGRAM_API_URL",
    reaches: [],
    doc: "address of Telegram's Bot API; default: https://api.telegram.org",
    schema: apiUrl,
  },
} satisfies SettingGroup

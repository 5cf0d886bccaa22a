/** The chat services of a deployment, from the variables and secrets of the worker. */
import { type ConfiguredChats, configureChats } from "../../adapters/configured-chats.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

export const durableChats = (environment: DurableEnvironment): ConfiguredChats => {
  const {
    SLACK_SIGNING_SECRET,
    SLACK_BOT_TOKEN,
    SLACK_SESSION,
    SLACK_API_URL,
    TELEGRAM_SECRET_TOKEN,
    TELEGRAM_BOT_TOKEN,
    TELEGRAM_SESSION,
    TELEGRAM_API_URL,
  } = environment
  return configureChats({
    environment: {
      SLACK_SIGNING_SECRET,
      SLACK_BOT_TOKEN,
      SLACK_SESSION,
      SLACK_API_URL,
      TELEGRAM_SECRET_TOKEN,
      TELEGRAM_BOT_TOKEN,
      TELEGRAM_SESSION,
      TELEGRAM_API_URL,
    },
    now: () => Date.now(),
  })
}

/** The chat services of a deployment, from the variables and secrets of the worker. */
import { type ConfiguredChats, configureChats } from "../../adapters/configured-chats.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

const NAMES = [
  "SLACK_SIGNING_SECRET",
  "SLACK_BOT_TOKEN",
  "SLACK_SESSION",
  "SLACK_CHANNELS",
  "SLACK_API_URL",
  "TELEGRAM_SECRET_TOKEN",
  "TELEGRAM_BOT_TOKEN",
  "TELEGRAM_SESSION",
  "TELEGRAM_CHANNELS",
  "TELEGRAM_API_URL",
] as const

export const durableChats = (environment: DurableEnvironment): ConfiguredChats =>
  configureChats({
    environment: Object.fromEntries(NAMES.map((name) => [name, environment[name]])),
    now: () => Date.now(),
  })

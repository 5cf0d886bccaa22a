/** The chat services that the environment configures: their adapters, the session each belongs to, and the port for sessions. */
import type { ChatServices } from "../session/chat-services.ts"
import type { ChannelAdapter } from "./adapter.ts"
import { createSlackAdapter } from "./slack.ts"
import { createTelegramAdapter } from "./telegram.ts"

type ChatType = ChannelAdapter["type"]

export interface Chat {
  readonly adapter: ChannelAdapter
  /** The session that takes its messages. */
  readonly session: string
}

export interface ConfiguredChats {
  readonly find: (type: string) => Chat | undefined
  readonly port: ChatServices
  /** Services of which something is set, but not all that they need: they are off. */
  readonly incomplete: readonly string[]
  /**
   * Why an agent may not write to a channel; `undefined`: it may. Whoever gets a text into the agent's context could
   * otherwise have it write to any channel that the bot reaches. `isOwn`: the session has had prompts from there.
   */
  readonly problemOf: (type: string, channelId: string, isOwn: boolean) => string | undefined
}

export interface ChatOptions {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly now: () => number
  /** Takes the messages of a service that has no session of its own. */
  readonly defaultSession?: (() => string) | undefined
}

const required = {
  slack: ["SLACK_SIGNING_SECRET", "SLACK_BOT_TOKEN"],
  telegram: ["TELEGRAM_SECRET_TOKEN", "TELEGRAM_BOT_TOKEN"],
} as const satisfies Readonly<Record<ChatType, readonly string[]>>

/** The `channelType` of the page's own conversations. */
const PAGE = "web"

/** The secrets of chat services that are set. */
export const chatSecretsIn = (environment: ChatOptions["environment"]): readonly string[] =>
  Object.values(required)
    .flat()
    .filter((name) => environment[name])

/** A service without both of its secrets, or without a session, is off. */
export const configureChats = ({
  environment,
  now,
  defaultSession,
}: ChatOptions): ConfiguredChats => {
  const value = (name: string) => environment[name] || undefined
  const sessionOf = (type: ChatType) => value(`${type.toUpperCase()}_SESSION`) ?? defaultSession?.()
  const missingSecrets = (type: ChatType) =>
    required[type].filter((name) => value(name) === undefined)
  const missing = (type: ChatType): readonly string[] => [
    ...missingSecrets(type),
    ...(sessionOf(type) === undefined ? [`${type.toUpperCase()}_SESSION`] : []),
  ]
  const listOf = (type: ChatType) => `${type.toUpperCase()}_CHANNELS`
  /** A listed channel is listed with all its threads. */
  const isListed = (type: ChatType, channelId: string): boolean =>
    (value(listOf(type)) ?? "")
      .split(",")
      .map((listed) => listed.trim())
      .some((listed) => listed !== "" && `${channelId}:`.startsWith(`${listed}:`))
  const make: Readonly<Record<ChatType, () => ChannelAdapter>> = {
    slack: () => {
      const apiUrl = value("SLACK_API_URL")
      return createSlackAdapter({
        signingSecret: value("SLACK_SIGNING_SECRET") ?? "",
        botToken: value("SLACK_BOT_TOKEN") ?? "",
        ...(apiUrl !== undefined && { apiUrl }),
        now,
      })
    },
    telegram: () => {
      const apiUrl = value("TELEGRAM_API_URL")
      return createTelegramAdapter({
        secretToken: value("TELEGRAM_SECRET_TOKEN") ?? "",
        botToken: value("TELEGRAM_BOT_TOKEN") ?? "",
        ...(apiUrl !== undefined && { apiUrl }),
      })
    },
  }
  const types: readonly ChatType[] = ["slack", "telegram"]
  const adapters = new Map<string, ChannelAdapter>(
    types.filter((type) => missingSecrets(type).length === 0).map((type) => [type, make[type]()]),
  )
  const find = (type: string): Chat | undefined => {
    const known = types.find((name) => name === type)
    const adapter = adapters.get(type)
    const session = known && sessionOf(known)
    return adapter && session !== undefined ? { adapter, session } : undefined
  }
  const isMeant = (type: ChatType) => missingSecrets(type).length < required[type].length
  return {
    find,
    incomplete: types
      .filter((type) => isMeant(type) && find(type) === undefined)
      .map((type) => `/channels/${type} is off: set ${missing(type).join(" and ")}`),
    port: {
      maxTextLength: (type) => find(type)?.adapter.maxTextLength,
      wasSent: async (type, channelId, { id, image }) =>
        (image ? undefined : await find(type)?.adapter.wasSent?.(channelId, id)) ?? "unknown",
      send: async (type, channelId, { id, text, image }) => {
        const adapter = find(type)?.adapter
        if (!image) return adapter?.send(channelId, text, id)
        const bytes = Uint8Array.from(atob(image.base64), (byte) => byte.charCodeAt(0))
        const name = image.name ?? `image.${image.mime.split("/")[1] ?? "png"}`
        await adapter?.attach(channelId, { name, mime: image.mime, bytes, caption: text })
      },
    },
    problemOf: (type, channelId, isOwn) => {
      const known = types.find((name) => name === type)
      if (known && !find(known))
        return `the hub is not connected to ${known}: set ${missing(known).join(" and ")}`
      if (isOwn) return undefined
      if (known && isListed(known, channelId)) return undefined
      if (known || type === PAGE)
        return `${type}:${channelId} is not a chat of this session: see list_channels.${known ? ` The operator allows more with ${listOf(known)}` : ""}`
      const connected = types.filter((name) => find(name) !== undefined)
      return `there is no chat service ${type}: the hub is connected to ${connected.length === 0 ? `none; it knows ${types.join(", ")}` : connected.join(", ")}`
    },
  }
}

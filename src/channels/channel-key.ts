/** The name of a channel: where prompts come from and answers go, `web:default` when nobody says. Pure. */

export interface ChannelAddress {
  readonly channelType: string
  readonly channelId: string
}

/** Half an address is none: a prompt that names only its type or only its id belongs to the default channel. */
export const addressOf = (from: {
  readonly channelType?: string | undefined
  readonly channelId?: string | undefined
}): ChannelAddress =>
  from.channelType && from.channelId
    ? { channelType: from.channelType, channelId: from.channelId }
    : { channelType: "web", channelId: "default" }

export const keyOf = ({ channelType, channelId }: ChannelAddress): string =>
  `${channelType}:${channelId}`

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

/** The first colon divides: types have none, ids may. */
export const addressOfKey = (key: string): ChannelAddress => {
  const colon = key.indexOf(":")
  return { channelType: key.slice(0, colon), channelId: key.slice(colon + 1) }
}

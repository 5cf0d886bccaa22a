/**
 * The name of a channel, as an address (`channelType` and `channelId`) and as a key (`web:default`). Both programs use
 * these functions, so that they always name the same channel. Pure.
 */

export interface ChannelAddress {
  readonly channelType: string
  readonly channelId: string
}

/** The channel fields of a frame or a client message: either may be missing. */
interface ChannelFields {
  readonly channelType?: string | undefined
  readonly channelId?: string | undefined
}

/** The key of the channel of a prompt that names none. */
export const MAIN_CHANNEL = "web:default"

const DEFAULT_CHANNEL: ChannelAddress = { channelType: "web", channelId: "default" }

/** An address needs both fields: with only one of them it counts as missing. */
export const hasChannel = <Fields extends ChannelFields>(
  fields: Fields,
): fields is Fields & ChannelAddress => Boolean(fields.channelType && fields.channelId)

/** The address that the fields give, or the default channel if they do not give one. */
export const addressOf = (fields: ChannelFields): ChannelAddress =>
  hasChannel(fields)
    ? { channelType: fields.channelType, channelId: fields.channelId }
    : DEFAULT_CHANNEL

/** The key of the address that the fields give, `web:default` if they do not give one. */
export const channelKey = (fields: ChannelFields): string => {
  const { channelType, channelId } = addressOf(fields)
  return `${channelType}:${channelId}`
}

/** The address of a key. The first colon separates: a type has no colon, an id may have some. */
export const channelAddress = (key: string): ChannelAddress => {
  const colon = key.indexOf(":")
  return { channelType: key.slice(0, colon), channelId: key.slice(colon + 1) }
}

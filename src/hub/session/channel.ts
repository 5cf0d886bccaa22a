/** Names of channels as keys: `web:default` when nobody says. Half an address is none. */

export interface ChannelAddress {
  readonly channelType: string
  readonly channelId: string
}

interface SomeAddress {
  readonly channelType?: string | undefined
  readonly channelId?: string | undefined
}

export const hasChannel = (from: SomeAddress): boolean =>
  Boolean(from.channelType && from.channelId)

export const channelKey = (from: SomeAddress): string =>
  from.channelType && from.channelId ? `${from.channelType}:${from.channelId}` : "web:default"

/** A type has no colon in it, an id may: the first one divides. */
export const channelAddress = (key: string): ChannelAddress => {
  const colon = key.indexOf(":")
  return { channelType: key.slice(0, colon), channelId: key.slice(colon + 1) }
}

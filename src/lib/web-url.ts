/** An address that a web client can ask. */
export const isWebUrl = (text: string): boolean =>
  URL.canParse(text) && ["http:", "https:"].includes(new URL(text).protocol)

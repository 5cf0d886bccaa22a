/** True for an http:// or https:// address. */
export const isWebUrl = (text: string): boolean =>
  URL.canParse(text) && ["http:", "https:"].includes(new URL(text).protocol)

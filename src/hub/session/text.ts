/** Text as a database column can hold it: whole characters, and the half of one that waits for its other half. */

export interface Piece {
  readonly text: string
  readonly half: number | null
  readonly size: number
}

/** A column is UTF-8, which has no lone surrogates: stored there, half an emoji would be lost for good. */
export const cutText = (text: string): Piece => {
  const last = text.charCodeAt(text.length - 1)
  const cut = last >= 0xd800 && last <= 0xdbff
  return { text: cut ? text.slice(0, -1) : text, half: cut ? last : null, size: text.length }
}

/** The bytes of a text in UTF-8. Half of a pair counts two, so that text cut anywhere sums up to what it is as a whole. */
export const bytesOf = (text: string): number => {
  let bytes = 0
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    bytes += code < 0x80 ? 1 : code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 2 : 3
  }
  return bytes
}

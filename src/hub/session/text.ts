/** Text for a UTF-8 database column, which cannot hold half of a surrogate pair. */

export interface StoredText {
  readonly text: string
  /** The trailing high surrogate that `text` is without. */
  readonly half: number | null
  readonly size: number
}

/** Cuts off a trailing high surrogate: stored as UTF-8, half an emoji would be lost. */
export const splitHalfCharacter = (text: string): StoredText => {
  const last = text.charCodeAt(text.length - 1)
  const isHalf = last >= 0xd800 && last <= 0xdbff
  return { text: isHalf ? text.slice(0, -1) : text, half: isHalf ? last : null, size: text.length }
}

/** Bytes in UTF-8. Half of a surrogate pair counts 2, so that the pieces of a text sum up to the whole. */
export const utf8Length = (text: string): number => {
  let bytes = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    bytes += code < 0x80 ? 1 : code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 2 : 3
  }
  return bytes
}

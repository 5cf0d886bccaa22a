/** The output of a running tool as the hub keeps it: its end, with the length of all of it. */

/** At most this much is kept when the start is cut; between two cuts it may grow to twice as much. */
const KEPT_CHARACTERS = 65_536

export interface Output {
  /** The end of the output. */
  readonly text: string
  /** The length of the whole output. */
  readonly size: number
}

/** `isAppended`: clients can append the delta to the text that they have. */
export const growOutput = (
  { text, size }: Output,
  offset: number,
  delta: string,
): Output & { readonly isAppended: boolean } => {
  const cut = size - text.length
  // The runner has started again and sends the output from an earlier place.
  const kept = offset >= size ? text : text.slice(0, Math.max(0, offset - cut))
  const grown = kept + delta.toWellFormed()
  const end = Math.max(offset, cut) + delta.length
  if (grown.length > 2 * KEPT_CHARACTERS)
    return { text: grown.slice(-KEPT_CHARACTERS).toWellFormed(), size: end, isAppended: false }
  return {
    text: grown,
    size: offset > size ? size + delta.length : end,
    isAppended: offset >= size,
  }
}

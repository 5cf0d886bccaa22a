/** Splits a long text into messages of at most `most` UTF-16 units. Pure. */

/** A cut prefers the end of a paragraph, then of a line, then of a word, in the last half of the piece. */
const BREAKS = ["\n\n", "\n", " "]

export const splitText = (text: string, most: number): readonly string[] => {
  const pieces: string[] = []
  let rest = text.trim()
  while (rest.length > most) {
    const cut = cutOf(rest, most)
    pieces.push(rest.slice(0, cut).trimEnd())
    rest = rest.slice(cut).trimStart()
  }
  if (rest !== "") pieces.push(rest)
  return pieces.filter((piece) => piece !== "")
}

const cutOf = (text: string, most: number): number => {
  for (const mark of BREAKS) {
    const at = text.lastIndexOf(mark, most - mark.length)
    if (at >= most / 2) return at + mark.length
  }
  // A surrogate pair is one character: both halves go into the same piece.
  const unit = text.charCodeAt(most - 1)
  return most > 1 && unit >= 0xd800 && unit <= 0xdbff ? most - 1 : most
}

/** The words of a Markdown text without its marks, for lists that show one line of it. Pure. */

/** Marks at the start of a line, and whole lines of marks. */
const LINE_MARKS: readonly RegExp[] = [
  /^\s*(?:```|~~~).*$/gm,
  /^\s*(?:(?:[-*_]\s*){3,}|\|?(?:\s*:?-+:?\s*\|)+[\s:-]*)$/gm,
  /^\s{0,3}(?:>\s?)+/gm,
  /^\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?/gm,
  /^\s{0,3}#{1,6}\s+/gm,
]

/** Marks around words; what is between them stays. */
const INLINE_MARKS: readonly RegExp[] = [
  /!?\[([^[\]\n]*)\]\([^()\s]*(?:\s+"[^"\n]*")?\)/g,
  /(?<!`)`+([^`\n]+)`+/g,
  /\*\*(?=\S)([^*\n]*[^*\s])\*\*/g,
  /(?<!\w)__(?=\S)([^_\n]*[^_\s])__(?!\w)/g,
  /~~(?=\S)([^~\n]*[^~\s])~~/g,
  /(?<![\w*])\*(?=[^\s*])([^*\n]*[^*\s])\*(?![\w*])/g,
  /(?<!\w)_(?=[^\s_])([^_\n]*[^_\s])_(?!\w)/g,
]

/** The words of a Markdown text in one line. */
export const withoutMarks = (text: string): string => {
  const lines = LINE_MARKS.reduce((rest, mark) => rest.replaceAll(mark, ""), text)
  const cells = lines.replaceAll(/^\s*\|(.*)\|\s*$/gm, (_row, inner: string) =>
    inner.replaceAll("|", " "),
  )
  return INLINE_MARKS.reduce((rest, mark) => rest.replaceAll(mark, "$1"), cells)
    .replaceAll(/\s+/g, " ")
    .trim()
}

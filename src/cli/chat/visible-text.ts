/** Makes control characters visible, so that text of a model or a tool cannot move the cursor, clear the screen or set a title. */

/** All control characters but line break and tab, and those that change the direction of text. */
const INVISIBLE = new RegExp(
  "[\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F\\u202A-\\u202E\\u2066-\\u2069]",
  "g",
)

/** ESC becomes ␛; a C1 control becomes its code, such as \\x9b. */
export const visibleText = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll(INVISIBLE, (character) => {
    const code = character.codePointAt(0) ?? 0
    if (code < 0x20) return String.fromCodePoint(0x2400 + code)
    if (code === 0x7f) return "␡"
    return code < 0xa0 ? `\\x${code.toString(16)}` : `\\u${code.toString(16)}`
  })

/** Makes control characters visible, so that text of a model or a tool cannot move the cursor, clear the screen or set a title. */

/** Control characters, and those that change the direction of text. */
const INVISIBLE = /[\p{Cc}\u202A-\u202E\u2066-\u2069]/gu

/** ESC becomes ␛; a C1 control becomes its code, such as \\x9b. Line breaks and tabs stay. */
export const visibleText = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll(INVISIBLE, (character) => {
    if (character === "\n" || character === "\t") return character
    const code = character.codePointAt(0) ?? 0
    if (code < 0x20) return String.fromCodePoint(0x2400 + code)
    if (code === 0x7f) return "␡"
    return code < 0xa0 ? `\\x${code.toString(16)}` : `\\u${code.toString(16)}`
  })

const ESC = "\u001B"
/** Colours and other styles of text; they end with the text. */
const STYLE = new RegExp(String.raw`(${ESC}\[[\d;:]{0,64}m)`)
const STYLE_END = `${ESC}[0m`

/** For a terminal: everything but styles is made visible. */
export const terminalText = (text: string): string => {
  const parts = text.split(STYLE)
  const shown = parts.map((part, index) => (index % 2 === 0 ? visibleText(part) : part)).join("")
  return parts.length === 1 ? shown : `${shown}${STYLE_END}`
}

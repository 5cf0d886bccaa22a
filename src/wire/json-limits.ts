/**
 * Parses JSON from a peer within limits. The parser itself needs seconds and gigabytes for a text of many nested or many
 * small values, so these are counted first. Pure.
 */

/** Far more than any message of the contract has. */
const MAX_JSON_DEPTH = 64
const MAX_JSON_VALUES = 500_000

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** True if the text is within the limits; says nothing about whether it is JSON. Stops at the first excess. */
export const isWithinJsonLimits = (text: string): boolean => {
  let depth = 0
  let values = 0
  let inString = false
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) inString = !inString
    else if (inString) {
      if (code === BACKSLASH) at += 1
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1
      values += 1
      if (depth > MAX_JSON_DEPTH) return false
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1
    else if (code === COMMA) values += 1
    if (values > MAX_JSON_VALUES) return false
  }
  return true
}

/** `undefined` if the text is not JSON or beyond the limits. */
export const parseLimitedJson = (text: string): unknown =>
  isWithinJsonLimits(text) ? parseJson(text) : undefined

/** `undefined` if the text is not JSON; no JSON text means `undefined`. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

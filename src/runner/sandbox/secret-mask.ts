/**
 * Replaces secret values in a stream of text, in every common encoding and across chunk boundaries. Text that may be the
 * start of a value is held back until more text, or the end, decides it.
 */

export interface Mask {
  /** Returns the masked text that is decided so far. */
  readonly push: (chunk: string) => string
  readonly end: () => string
}

const HIDDEN = "[secret]"

/** A shorter value cannot be masked: it would match too much other text. */
export const SHORTEST_SECRET = 4
/** Lines of a multi-line value are masked too, except short ones, which match ordinary words. */
const SHORTEST_LINE = 8

export const createMask = (values: readonly string[]): Mask => {
  const forms = [...new Set(values.flatMap(formsOf))].toSorted((a, b) => b.length - a.length)
  const longest = forms[0]?.length ?? 0
  let pending = ""

  const take = (isEnd: boolean): string => {
    const flat = flatten(pending)
    const ranges = rangesOf(flat, forms)
    // Every form that starts before this position is complete in the text, so it was found.
    const settled = isEnd ? flat.text.length : Math.max(0, flat.text.length - (longest - 1))
    const crossing = ranges.find(({ start, end }) => start < settled && end > settled)
    const boundary = isEnd ? flat.text.length : (crossing?.start ?? settled)
    const cut = boundary >= flat.text.length ? pending.length : (flat.positions[boundary] ?? 0)
    const shown = replaceRanges(pending, flat, ranges, cut)
    pending = pending.slice(cut)
    return shown
  }

  return {
    push: (chunk) => {
      pending += chunk
      return take(false)
    },
    end: () => take(true),
  }
}

interface Flat {
  readonly text: string
  /** The position of each character of `text` in the original. */
  readonly positions: readonly number[]
}

/** Removes line breaks, because `base64` and `fold` insert them anywhere. */
const flatten = (original: string): Flat => {
  const positions: number[] = []
  let text = ""
  for (let position = 0; position < original.length; position += 1) {
    const letter = original[position] ?? ""
    if (letter === "\n" || letter === "\r") continue
    positions.push(position)
    text += letter
  }
  return { text, positions }
}

interface Range {
  readonly start: number
  readonly end: number
}

const rangesOf = ({ text }: Flat, forms: readonly string[]): readonly Range[] => {
  const found: Range[] = []
  for (const form of forms) {
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
      found.push({ start: at, end: at + form.length })
    }
  }
  return merged(found.toSorted((a, b) => a.start - b.start))
}

/** Merges ranges that overlap or touch. */
const merged = (ranges: readonly Range[]): readonly Range[] => {
  const result: Range[] = []
  for (const range of ranges) {
    const last = result.at(-1)
    if (last === undefined || range.start > last.end) result.push(range)
    else result[result.length - 1] = { start: last.start, end: Math.max(last.end, range.end) }
  }
  return result
}

const replaceRanges = (
  original: string,
  flat: Flat,
  ranges: readonly Range[],
  cut: number,
): string => {
  let shown = ""
  let from = 0
  for (const { start, end } of ranges) {
    const first = flat.positions[start] ?? cut
    if (first >= cut) break
    shown += original.slice(from, first) + HIDDEN
    from = (flat.positions[end - 1] ?? cut - 1) + 1
  }
  return shown + original.slice(from, cut)
}

/** The value and its lines: plain, escaped for JSON and URLs, in base64 at every offset, and in hexadecimal. */
const formsOf = (value: string): readonly string[] => {
  const lines = value.split(/\r?\n/).filter((line) => line.trim().length >= SHORTEST_LINE)
  return [value, ...lines].flatMap(encodingsOf).filter((form) => form.length >= SHORTEST_SECRET)
}

const encodingsOf = (value: string): readonly string[] => {
  const url = encodeURIComponent(value)
  const everyByte = [...Buffer.from(value)].map((byte) => byte.toString(16).padStart(2, "0"))
  const hex = everyByte.join("")
  return [
    value.replaceAll(/[\r\n]/g, ""),
    JSON.stringify(value).slice(1, -1),
    url,
    url.replaceAll("%20", "+"),
    url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    // Encoders that also escape these characters.
    url.replaceAll(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64At(value, offset)),
  ]
}

/**
 * Inside other data a value starts at one of three base64 offsets. Characters that also encode bits of the neighbouring
 * bytes are left out, because they vary.
 */
const base64At = (value: string, offset: number): readonly string[] => {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value)])
  const first = Math.ceil((offset * 8) / 6)
  const last = Math.floor((bytes.length * 8) / 6)
  const plain = bytes.toString("base64").slice(first, last)
  return [plain, plain.replaceAll("+", "-").replaceAll("/", "_")]
}

/** For a command whose output cannot contain a secret. */
export const noMask = (): Mask => createMask([])

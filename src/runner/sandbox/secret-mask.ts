/**
 * Takes secret values out of a stream of text, in every form they are commonly written in and across the borders of
 * chunks. What could still become a value is held back until more text, or the end, shows that it does not.
 */

export interface Mask {
  /** What can be shown of the text so far. */
  readonly push: (chunk: string) => string
  readonly end: () => string
}

const HIDDEN = "[secret]"

/** A shorter value cannot be hidden: too much else looks like it. */
export const SHORTEST_SECRET = 4
/** A line of a key is as good as the key; shorter lines are ordinary words. */
const SHORTEST_LINE = 8

export const createMask = (values: readonly string[]): Mask => {
  const forms = [...new Set(values.flatMap(formsOf))].toSorted((a, b) => b.length - a.length)
  const longest = forms[0]?.length ?? 0
  let pending = ""

  const take = (isEnd: boolean): string => {
    const flat = flatten(pending)
    const ranges = rangesOf(flat, forms)
    // Every form that begins before this place lies in the text as a whole, and so is found.
    const settled = isEnd ? flat.text.length : Math.max(0, flat.text.length - (longest - 1))
    const crossing = ranges.find(({ start, end }) => start < settled && end > settled)
    const border = isEnd ? flat.text.length : (crossing?.start ?? settled)
    const cut = border >= flat.text.length ? pending.length : (flat.places[border] ?? 0)
    const shown = hide(pending, flat, ranges, cut)
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
  /** Where each character of `text` stands in the original. */
  readonly places: readonly number[]
}

/** Line breaks are looked past: `base64` and `fold` put them anywhere. */
const flatten = (original: string): Flat => {
  const places: number[] = []
  let text = ""
  for (let place = 0; place < original.length; place += 1) {
    const letter = original[place] ?? ""
    if (letter === "\n" || letter === "\r") continue
    places.push(place)
    text += letter
  }
  return { text, places }
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
  return joined(found.toSorted((a, b) => a.start - b.start))
}

/** Ranges that overlap or touch become one. */
const joined = (ranges: readonly Range[]): readonly Range[] => {
  const done: Range[] = []
  for (const range of ranges) {
    const last = done.at(-1)
    if (last === undefined || range.start > last.end) done.push(range)
    else done[done.length - 1] = { start: last.start, end: Math.max(last.end, range.end) }
  }
  return done
}

const hide = (original: string, flat: Flat, ranges: readonly Range[], cut: number): string => {
  let shown = ""
  let from = 0
  for (const { start, end } of ranges) {
    const first = flat.places[start] ?? cut
    if (first >= cut) break
    shown += original.slice(from, first) + HIDDEN
    from = (flat.places[end - 1] ?? cut - 1) + 1
  }
  return shown + original.slice(from, cut)
}

/** The value and its lines: plain, quoted for JSON, in URLs, in base64 at every offset, in hexadecimal digits. */
const formsOf = (value: string): readonly string[] => {
  const lines = value.split(/\r?\n/).filter((line) => line.trim().length >= SHORTEST_LINE)
  return [value, ...lines].flatMap(spellingsOf).filter((form) => form.length >= SHORTEST_SECRET)
}

const spellingsOf = (value: string): readonly string[] => {
  const url = encodeURIComponent(value)
  const everyByte = [...Buffer.from(value)].map((byte) => byte.toString(16).padStart(2, "0"))
  const hex = everyByte.join("")
  return [
    value.replaceAll(/[\r\n]/g, ""),
    JSON.stringify(value).slice(1, -1),
    url,
    url.replaceAll("%20", "+"),
    url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    // What encoders that spare fewer letters make of it.
    url.replaceAll(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64At(value, offset)),
  ]
}

/**
 * In the middle of other text a value begins at any of three offsets of base64; the letters that its neighbours
 * share in are left out, since they differ each time.
 */
const base64At = (value: string, offset: number): readonly string[] => {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value)])
  const first = Math.ceil((offset * 8) / 6)
  const last = Math.floor((bytes.length * 8) / 6)
  const plain = bytes.toString("base64").slice(first, last)
  return [plain, plain.replaceAll("+", "-").replaceAll("/", "_")]
}

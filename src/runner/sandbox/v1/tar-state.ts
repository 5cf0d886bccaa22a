/**
 * Reads a tar archive (ustar, pax and GNU long names) as a pure machine: bytes, cut anywhere, become entries and their
 * data. Only the names of entries are held in memory.
 */

export type TarEvent =
  | {
      readonly type: "entry"
      readonly path: string
      readonly kind: "file" | "directory" | "other"
      readonly size: number
      readonly mode: number
    }
  | { readonly type: "data"; readonly bytes: Buffer }
  | { readonly type: "entry-end" }

export type TarState =
  | { readonly phase: "header"; readonly held: Buffer; readonly next: NextEntry }
  /** `name`: the data is a name or a pax record for the next entry, and is collected. */
  | {
      readonly phase: "data"
      readonly left: number
      readonly padding: number
      readonly collect: Collect | undefined
      readonly next: NextEntry
    }
  | { readonly phase: "padding"; readonly left: number; readonly next: NextEntry }
  /** After the block of zeros; the rest is ignored. */
  | { readonly phase: "end" }

/** What records before an entry say about it. */
interface NextEntry {
  readonly path?: string
  readonly size?: number
}

interface Collect {
  readonly kind: "gnu-name" | "pax" | "ignored"
  readonly bytes: Buffer
}

export class TarError extends Error {
  override readonly name = "TarError"
}

const BLOCK = 512
const LONGEST_RECORD = 64 * 1024
const NONE = Buffer.alloc(0)

export const newTar = (): TarState => ({ phase: "header", held: NONE, next: {} })

/** Throws a TarError for what is not a tar archive. */
export const stepTar = (
  state: TarState,
  bytes: Buffer,
): readonly [TarState, readonly TarEvent[]] => {
  const events: TarEvent[] = []
  let at = 0
  let now = state
  while (at < bytes.length && now.phase !== "end") {
    if (now.phase === "padding") {
      const taken: number = Math.min(now.left, bytes.length - at)
      at += taken
      now =
        taken === now.left
          ? { phase: "header", held: NONE, next: now.next }
          : { ...now, left: now.left - taken }
    } else if (now.phase === "header") {
      const taken = Math.min(BLOCK - now.held.length, bytes.length - at)
      const held: Buffer = Buffer.concat([now.held, bytes.subarray(at, at + taken)])
      at += taken
      now = held.length < BLOCK ? { ...now, held } : readHeader(held, now.next, events)
    } else {
      const taken: number = Math.min(now.left, bytes.length - at)
      const piece = bytes.subarray(at, at + taken)
      at += taken
      if (now.collect === undefined) events.push({ type: "data", bytes: piece })
      else if (now.collect.kind !== "ignored") {
        const collect: Collect = {
          ...now.collect,
          bytes: Buffer.concat([now.collect.bytes, piece]),
        }
        now = { ...now, collect }
      }
      now = taken === now.left ? endData(now, events) : { ...now, left: now.left - taken }
    }
  }
  return [now, events]
}

/** True if the archive may end here: after its block of zeros, or between two entries. */
export const mayEnd = (state: TarState): boolean =>
  state.phase === "end" || (state.phase === "header" && state.held.length === 0)

type DataState = Extract<TarState, { phase: "data" }>

const endData = ({ padding, collect, next }: DataState, events: TarEvent[]): TarState => {
  if (collect === undefined) events.push({ type: "entry-end" })
  const known = collect === undefined ? {} : { ...next, ...readRecord(collect) }
  return padding === 0
    ? { phase: "header", held: NONE, next: known }
    : { phase: "padding", left: padding, next: known }
}

const readHeader = (block: Buffer, next: NextEntry, events: TarEvent[]): TarState => {
  if (block.every((byte) => byte === 0)) return { phase: "end" }
  checkSum(block)
  const flag = String.fromCharCode(block[156] ?? 0)
  const ownSize = numberAt(block, 124, 12)
  const collect = collectOf(flag)
  if (collect !== undefined) {
    if (collect.kind !== "ignored" && ownSize > LONGEST_RECORD) {
      throw new TarError("a record about a name is too long")
    }
    return dataOf(ownSize, collect, next, events)
  }
  const kind = kindOf(flag)
  // Links and devices have no data; their size field is ignored.
  const size = kind === "file" ? (next.size ?? ownSize) : 0
  events.push({
    type: "entry",
    path: next.path ?? ownPath(block),
    kind,
    size,
    mode: numberAt(block, 100, 8),
  })
  return dataOf(size, undefined, {}, events)
}

const dataOf = (
  size: number,
  collect: Collect | undefined,
  next: NextEntry,
  events: TarEvent[],
): TarState => {
  const padding = (BLOCK - (size % BLOCK)) % BLOCK
  const state: DataState = { phase: "data", left: size, padding, collect, next }
  return size === 0 ? endData(state, events) : state
}

const collectOf = (flag: string): Collect | undefined => {
  if (flag === "L") return { kind: "gnu-name", bytes: NONE }
  if (flag === "x") return { kind: "pax", bytes: NONE }
  return flag === "g" || flag === "K" ? { kind: "ignored", bytes: NONE } : undefined
}

const kindOf = (flag: string): "file" | "directory" | "other" => {
  if (flag === "0" || flag === "\0" || flag === "7") return "file"
  return flag === "5" ? "directory" : "other"
}

const readRecord = ({ kind, bytes }: Collect): NextEntry => {
  if (kind === "gnu-name") return { path: textOf(bytes) }
  return kind === "pax" ? readPax(bytes) : {}
}

/** Records of the form `<length> <key>=<value>\n`; the length counts all of it, in bytes. */
const readPax = (bytes: Buffer): NextEntry => {
  let next: NextEntry = {}
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(" ", at)
    const length = Number(bytes.toString("latin1", at, space === -1 ? at : space))
    if (!Number.isInteger(length) || length < 5 || at + length > bytes.length) {
      throw new TarError("a pax record is malformed")
    }
    const text = bytes.toString("utf8", space + 1, at + length - 1)
    const equals = text.indexOf("=")
    const value = text.slice(equals + 1)
    if (text.slice(0, equals) === "path") next = { ...next, path: value }
    if (text.slice(0, equals) === "size") next = { ...next, size: checkedSize(Number(value)) }
    at += length
  }
  return next
}

const ownPath = (block: Buffer): string => {
  const name = textOf(block.subarray(0, 100))
  const isUstar = block.toString("latin1", 257, 262) === "ustar"
  const prefix = isUstar ? textOf(block.subarray(345, 500)) : ""
  // GNU tar uses the place of the prefix for other fields.
  const isGnu = block.toString("latin1", 257, 265) === "ustar  \0"
  return prefix === "" || isGnu ? name : `${prefix}/${name}`
}

const textOf = (bytes: Buffer): string => {
  const end = bytes.indexOf(0)
  return bytes.toString("utf8", 0, end === -1 ? bytes.length : end)
}

/** Octal digits, or a binary number if the first bit is set (for files of more than 8 GiB). */
const numberAt = (block: Buffer, start: number, length: number): number => {
  const field = block.subarray(start, start + length)
  if (((field[0] ?? 0) & 0x80) !== 0) {
    let value = (field[0] ?? 0) & 0x7f
    for (const byte of field.subarray(1)) value = value * 256 + byte
    return checkedSize(value)
  }
  const digits = field.toString("latin1").replaceAll("\0", " ").trim()
  if (digits === "") return 0
  if (!/^[0-7]+$/.test(digits)) throw new TarError("a header has a malformed number")
  return checkedSize(Number.parseInt(digits, 8))
}

const checkedSize = (size: number): number => {
  if (!Number.isSafeInteger(size) || size < 0) throw new TarError("an entry has a malformed size")
  return size
}

const checkSum = (block: Buffer): void => {
  let sum = 0
  for (const [index, byte] of block.entries()) sum += index >= 148 && index < 156 ? 32 : byte
  if (sum !== numberAt(block, 148, 8)) throw new TarError("it is not a tar archive")
}

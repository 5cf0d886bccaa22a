/**
 * Every frame that is on its way to the session agent, in order, until the session agent has it. A frame's `seq`
 * is its place in the line, so what was never sent may still be merged, and what was sent keeps its number across
 * cut sockets and crashes. Nothing is sent before it is stored.
 */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { compactFrames } from "./compact-frames.ts"

/** The line as the disk keeps it: frames as JSON text, the first of them numbered `headSeq`. */
export interface OutboxStore {
  readonly load: () => { readonly headSeq: number; readonly lines: readonly string[] }
  /** Adds lines behind the last one, the first of them numbered `seq`, and lets go of all before `headSeq`. */
  readonly append: (headSeq: number, seq: number, lines: readonly string[]) => void
  /** Puts these lines in place of everything from `seq` on. */
  readonly rewrite: (headSeq: number, seq: number, lines: readonly string[]) => void
}

export interface OutboxOptions {
  readonly store: OutboxStore
  readonly maxBytes: number
  /** The disk does not take what it should keep: frames go on in memory, and are stored once it does again. */
  readonly onStoreFailure: (error: unknown) => void
}

export interface OutboxStats {
  readonly frames: number
  readonly bytes: number
  readonly merged: number
}

export interface Outbox {
  /** Takes a frame; it can be sent after the next `commit`. */
  readonly append: (frame: OutboundFrame) => void
  readonly commit: () => void
  /** The next frame to send, or nothing when all that is stored has been sent on this connection. */
  readonly next: () => { readonly seq: number; readonly line: string } | undefined
  /** The session agent has stored everything up to `seq`. */
  readonly acknowledge: (seq: number) => void
  /** A connection on which the session agent says what it has: the rest is sent again, from there. */
  readonly resume: (lastSeq: number) => void
  /** A session agent that keeps no count: what was sent is out of our hands. */
  readonly discardSent: () => void
  /** Whether a frame with these words in it is still to be delivered. */
  readonly contains: (words: string) => boolean
  /** `seq` of the oldest frame that is kept, or of the next one to come. */
  readonly headSeq: () => number
  /** At its bound: whoever makes frames waits until it is not. */
  readonly isFull: () => boolean
  readonly isEmpty: () => boolean
  readonly stats: () => OutboxStats
}

export const createOutbox = ({ store, maxBytes, onStoreFailure }: OutboxOptions): Outbox => {
  const loaded = store.load()
  let headSeq = loaded.headSeq
  let storedHeadSeq = headSeq
  /** Taken since the last commit: may still be merged, cannot be sent. */
  let uncommitted: OutboundFrame[] = []
  // Lines that are done with stay at the front until the array is worth moving: shifting each time costs all of it.
  let lines = [...loaded.lines]
  let removed = 0
  let bytes = sizeOf(lines)
  /** How many of the line were handed to a socket: ever, and on this connection. */
  let everSent = 0
  let sentOnConnection = 0
  /** Lines of an earlier life that may have been sent by it; known only when the session agent says what it has. */
  let maybeSentBefore = lines.length
  let merged = 0
  /** The store missed a write: it is given the whole line again before anything else. */
  let storeIsStale = false

  const size = () => lines.length - removed

  const dropFront = (count: number) => {
    for (let index = removed; index < removed + count; index += 1)
      bytes -= lines[index]?.length ?? 0
    removed += count
    headSeq += count
    everSent = Math.max(0, everSent - count)
    sentOnConnection = Math.max(0, sentOnConnection - count)
    maybeSentBefore = Math.max(0, maybeSentBefore - count)
    if (removed > 1024 && removed > lines.length / 2) {
      lines = lines.slice(removed)
      removed = 0
    }
  }

  const writeToStore = (write: () => void) => {
    try {
      if (storeIsStale) store.rewrite(headSeq, headSeq, lines.slice(removed))
      else write()
      storeIsStale = false
      storedHeadSeq = headSeq
    } catch (error) {
      storeIsStale = true
      onStoreFailure(error)
    }
  }

  const replaceFrom = (index: number, tail: readonly string[]) => {
    lines = [...lines.slice(removed, removed + index), ...tail]
    removed = 0
    bytes = sizeOf(lines)
    writeToStore(() => store.rewrite(headSeq, headSeq + index, tail))
  }

  const compactUnsent = () => {
    const from = Math.max(everSent, maybeSentBefore)
    const unsent = lines.slice(removed + from)
    const thinner = compactFrames(unsent)
    if (thinner.length === unsent.length) return
    merged += unsent.length - thinner.length
    replaceFrom(from, thinner)
  }

  return {
    append: (frame) => {
      const last = uncommitted.at(-1)
      const joined = last && mergeDeltas(last, frame)
      if (!joined) return void uncommitted.push(frame)
      uncommitted[uncommitted.length - 1] = joined
      merged += 1
    },
    commit: () => {
      const seq = headSeq + size()
      const added = uncommitted.map((frame) => JSON.stringify(frame))
      uncommitted = []
      for (const line of added) lines.push(line)
      bytes += sizeOf(added)
      if (added.length > 0 || headSeq > storedHeadSeq) {
        writeToStore(() => store.append(headSeq, seq, added))
      }
      if (bytes > maxBytes) compactUnsent()
    },
    next: () => {
      const line = lines[removed + sentOnConnection]
      if (line === undefined) return undefined
      const seq = headSeq + sentOnConnection
      sentOnConnection += 1
      everSent = Math.max(everSent, sentOnConnection)
      return { seq, line }
    },
    acknowledge: (seq) => {
      const count = Math.min(seq - headSeq + 1, everSent)
      if (count > 0) dropFront(count)
    },
    resume: (lastSeq) => {
      const sendable = Math.max(maybeSentBefore, everSent)
      dropFront(Math.max(0, Math.min(lastSeq - headSeq + 1, sendable)))
      if (lastSeq >= headSeq) {
        // The session agent remembers more than this state directory does: it was set back to an earlier copy.
        // The numbers that are taken are skipped, so that none of the new frames is mistaken for an old one.
        headSeq = lastSeq + 1
        replaceFrom(0, lines.slice(removed))
      }
      sentOnConnection = 0
      // Bytes of an older connection may still be under way: what they carry keeps its number and its words.
      everSent = Math.max(everSent, maybeSentBefore)
      maybeSentBefore = 0
    },
    discardSent: () => {
      maybeSentBefore = 0
      dropFront(sentOnConnection)
    },
    contains: (words) => {
      for (let index = removed; index < lines.length; index += 1) {
        if (lines[index]?.includes(words)) return true
      }
      return uncommitted.some((frame) => JSON.stringify(frame).includes(words))
    },
    headSeq: () => headSeq,
    isFull: () => bytes > maxBytes,
    isEmpty: () => size() === 0 && uncommitted.length === 0,
    stats: () => ({ frames: size() + uncommitted.length, bytes, merged }),
  }
}

const sizeOf = (lines: readonly string[]): number =>
  lines.reduce((sum, line) => sum + line.length, 0)

/** Two pieces of the same part of the same turn, one right behind the other, are one longer piece. */
const mergeDeltas = (first: OutboundFrame, second: OutboundFrame): OutboundFrame | undefined => {
  if (
    (first.type === "message.part.text-delta" || first.type === "message.part.reasoning-delta") &&
    first.type === second.type &&
    first.turnId === second.turnId &&
    first.partId === second.partId
  ) {
    return { ...first, delta: first.delta + second.delta }
  }
  return undefined
}

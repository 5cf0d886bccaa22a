/**
 * Every frame that is on its way to the session agent, in order, until the session agent has it. A frame's `seq`
 * is its place in the line, so what was never sent may still be merged, and what was sent keeps its number across
 * cut sockets and crashes. Nothing is sent before it is stored.
 */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { thin } from "./compact-frames.ts"

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
  readonly letGoOfSent: () => void
  /** Whether a frame with these words in it is still to be delivered. */
  readonly holds: (words: string) => boolean
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
  let fresh: OutboundFrame[] = []
  // Lines that are done with stay at the front until the array is worth moving: shifting each time costs all of it.
  let lines = [...loaded.lines]
  let gone = 0
  let bytes = sizeOf(lines)
  /** How many of the line were handed to a socket: ever, and on this connection. */
  let everSent = 0
  let sentNow = 0
  /** Lines of an earlier life that may have been sent by it; known only when the session agent says what it has. */
  let inherited = lines.length
  let merged = 0
  /** The store missed a write: it is given the whole line again before anything else. */
  let behind = false

  const size = () => lines.length - gone

  const dropFront = (count: number) => {
    for (let index = gone; index < gone + count; index += 1) bytes -= lines[index]?.length ?? 0
    gone += count
    headSeq += count
    everSent = Math.max(0, everSent - count)
    sentNow = Math.max(0, sentNow - count)
    inherited = Math.max(0, inherited - count)
    if (gone > 1024 && gone > lines.length / 2) {
      lines = lines.slice(gone)
      gone = 0
    }
  }

  const keep = (write: () => void) => {
    try {
      if (behind) store.rewrite(headSeq, headSeq, lines.slice(gone))
      else write()
      behind = false
      storedHeadSeq = headSeq
    } catch (error) {
      behind = true
      onStoreFailure(error)
    }
  }

  const replaceFrom = (index: number, tail: readonly string[]) => {
    lines = [...lines.slice(gone, gone + index), ...tail]
    gone = 0
    bytes = sizeOf(lines)
    keep(() => store.rewrite(headSeq, headSeq + index, tail))
  }

  const makeRoom = () => {
    const from = Math.max(everSent, inherited)
    const unsent = lines.slice(gone + from)
    const thinner = thin(unsent)
    if (thinner.length === unsent.length) return
    merged += unsent.length - thinner.length
    replaceFrom(from, thinner)
  }

  return {
    append: (frame) => {
      const last = fresh.at(-1)
      const joined = last && mergeDeltas(last, frame)
      if (!joined) return void fresh.push(frame)
      fresh[fresh.length - 1] = joined
      merged += 1
    },
    commit: () => {
      const seq = headSeq + size()
      const added = fresh.map((frame) => JSON.stringify(frame))
      fresh = []
      for (const line of added) lines.push(line)
      bytes += sizeOf(added)
      if (added.length > 0 || headSeq > storedHeadSeq) {
        keep(() => store.append(headSeq, seq, added))
      }
      if (bytes > maxBytes) makeRoom()
    },
    next: () => {
      const line = lines[gone + sentNow]
      if (line === undefined) return undefined
      const seq = headSeq + sentNow
      sentNow += 1
      everSent = Math.max(everSent, sentNow)
      return { seq, line }
    },
    acknowledge: (seq) => {
      const count = Math.min(seq - headSeq + 1, everSent)
      if (count > 0) dropFront(count)
    },
    resume: (lastSeq) => {
      const sendable = Math.max(inherited, everSent)
      dropFront(Math.max(0, Math.min(lastSeq - headSeq + 1, sendable)))
      if (lastSeq >= headSeq) {
        // The session agent remembers more than this state directory does: it was set back to an earlier copy.
        // The numbers that are taken are skipped, so that none of the new frames is mistaken for an old one.
        headSeq = lastSeq + 1
        replaceFrom(0, lines.slice(gone))
      }
      sentNow = 0
      // Bytes of an older connection may still be under way: what they carry keeps its number and its words.
      everSent = Math.max(everSent, inherited)
      inherited = 0
    },
    letGoOfSent: () => {
      inherited = 0
      dropFront(sentNow)
    },
    holds: (words) => {
      for (let index = gone; index < lines.length; index += 1) {
        if (lines[index]?.includes(words)) return true
      }
      return fresh.some((frame) => JSON.stringify(frame).includes(words))
    },
    headSeq: () => headSeq,
    isFull: () => bytes > maxBytes,
    isEmpty: () => size() === 0 && fresh.length === 0,
    stats: () => ({ frames: size() + fresh.length, bytes, merged }),
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

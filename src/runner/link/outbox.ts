/**
 * The queue of frames to the session agent: each frame is kept until it is acknowledged. A frame's `seq` is its place
 * in the queue, so frames that were never sent may still be merged, and a sent frame keeps its number across
 * reconnects and crashes. Nothing is sent before it is stored.
 */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { compactFrames, mergeDeltas } from "./compact-frames.ts"

/** The queue on disk: frames as lines of JSON, the first of them with the number `headSeq`. */
export interface OutboxStore {
  readonly load: () => { readonly headSeq: number; readonly lines: readonly string[] }
  /** Appends lines, the first of them with the number `seq`, and deletes everything before `headSeq`. */
  readonly append: (headSeq: number, seq: number, lines: readonly string[]) => void
  /** Replaces everything from `seq` on with these lines. */
  readonly rewrite: (headSeq: number, seq: number, lines: readonly string[]) => void
}

export interface OutboxOptions {
  readonly store: OutboxStore
  readonly maxBytes: number
  /** Called when a write to the disk failed: frames stay in memory and are stored with the next write that succeeds. */
  readonly onStoreFailure: (error: unknown) => void
}

export interface OutboxStats {
  readonly frames: number
  readonly bytes: number
  readonly merged: number
}

export interface Outbox {
  /** Adds a frame; it can be sent after the next `commit`. */
  readonly append: (frame: OutboundFrame) => void
  readonly commit: () => void
  /** The next frame to send; undefined when all stored frames were sent on this connection. */
  readonly next: () => { readonly seq: number; readonly line: string } | undefined
  /** The session agent has stored everything up to `seq`. */
  readonly acknowledge: (seq: number) => void
  /** A new connection whose session agent has stored everything up to `lastSeq`: sending continues after that. */
  readonly resume: (lastSeq: number) => void
  /** For a session agent that does not acknowledge frames: removes the frames that were sent. */
  readonly discardSent: () => void
  /** Whether a frame that contains `text` is still to be delivered. */
  readonly contains: (text: string) => boolean
  /** `seq` of the oldest frame in the outbox, or of the next frame if it is empty. */
  readonly headSeq: () => number
  /** The size limit is reached: producers must wait. */
  readonly isFull: () => boolean
  readonly isEmpty: () => boolean
  readonly stats: () => OutboxStats
}

export const createOutbox = ({ store, maxBytes, onStoreFailure }: OutboxOptions): Outbox => {
  const loaded = store.load()
  let headSeq = loaded.headSeq
  let storedHeadSeq = headSeq
  /** Frames since the last commit: they may still be merged and cannot be sent yet. */
  let uncommitted: OutboundFrame[] = []
  // The places of removed lines stay at the front of the array until copying it is worthwhile: a shift per frame costs
  // O(n). Their text is dropped at once, since a line may have megabytes.
  let lines = [...loaded.lines]
  let removed = 0
  let bytes = sizeOf(lines)
  /** How many frames of the queue were sent: on any connection, and on the current one. */
  let everSent = 0
  let sentOnConnection = 0
  /** Frames of an earlier process, which may have sent them; known only after the session agent's `welcome`. */
  let maybeSentBefore = lines.length
  let merged = 0
  /** A write failed: the next write must store the whole queue. */
  let storeIsStale = false

  const size = () => lines.length - removed

  const dropFront = (count: number) => {
    for (let index = removed; index < removed + count; index += 1)
      bytes -= lines[index]?.length ?? 0
    lines.fill("", removed, removed + count)
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
    const compacted = compactFrames(unsent)
    if (compacted.length === unsent.length) return
    merged += unsent.length - compacted.length
    replaceFrom(from, compacted)
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
        // The session agent has more frames than this state directory, which was restored from an earlier copy.
        // Their numbers are skipped, so that a new frame is not mistaken for an old one.
        headSeq = lastSeq + 1
        replaceFrom(0, lines.slice(removed))
      }
      sentOnConnection = 0
      // Bytes of an older connection may still arrive: frames that it sent keep their number and content.
      everSent = Math.max(everSent, maybeSentBefore)
      maybeSentBefore = 0
    },
    discardSent: () => {
      maybeSentBefore = 0
      dropFront(sentOnConnection)
    },
    contains: (text) => {
      for (let index = removed; index < lines.length; index += 1) {
        if (lines[index]?.includes(text)) return true
      }
      return uncommitted.some((frame) => JSON.stringify(frame).includes(text))
    },
    headSeq: () => headSeq,
    isFull: () => bytes > maxBytes,
    isEmpty: () => size() === 0 && uncommitted.length === 0,
    stats: () => ({ frames: size() + uncommitted.length, bytes, merged }),
  }
}

const sizeOf = (lines: readonly string[]): number =>
  lines.reduce((sum, line) => sum + line.length, 0)

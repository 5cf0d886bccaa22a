/**
 * Words as they stream in: told to clients as soon as the host gets to it, written in batches. What is not written is not
 * acknowledged, so a host that dies in between gets it again.
 */
import type { Messages, WordKind } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { bytesOf } from "./text.ts"

export interface DeltaBatches {
  /** True when the words could wait; false when they must be written now, with what waited before them. */
  readonly take: (
    messageId: string,
    base: string | undefined,
    kind: WordKind,
    delta: string,
  ) => boolean
  /** Writes what waits. Part of a transaction. */
  readonly write: () => void
  /** Words that start something, or a message that is over: no waiting. Part of a transaction. */
  readonly writeNow: (
    messageId: string,
    base: string | undefined,
    kind: WordKind,
    delta: string,
  ) => void
  /** How many bytes are to be written. */
  readonly waiting: () => number
  /** Tells clients what they have not heard yet: before anything else that they are told. */
  readonly tell: () => void
  /** A message has ended, and all its words are written. */
  readonly close: (messageId: string) => void
  /** Forgets what it knows of the rows: the transaction they were read in did not go through. */
  readonly forget: () => void
}

interface OpenPart {
  readonly messageId: string
  readonly id: string
  size: number
  /** To be written, and the end of it that is also to be told. */
  waiting: string
  untold: string
}

/** A row is left well before it is full, so that no batch can overfill it. */
const ROOM = 400_000

export const createDeltaBatches = (
  messages: Messages,
  { sockets, later }: Pick<Ports, "sockets" | "later">,
  rev: () => number,
): DeltaBatches => {
  const open = new Map<string, OpenPart>()
  const keyOf = (messageId: string, base: string) => `${messageId}\n${base}`
  let waiting = 0
  let cancelTelling: (() => void) | undefined

  const find = (messageId: string, base: string): OpenPart | undefined => {
    if (!messages.isStreaming(messageId)) return undefined
    const known = open.get(keyOf(messageId, base))
    if (known) return known
    const row = messages.openPart(messageId, base)
    if (!row) return undefined
    const part = { messageId, id: row.id, size: row.size, waiting: "", untold: "" }
    open.set(keyOf(messageId, base), part)
    return part
  }

  const stopTelling = () => {
    cancelTelling?.()
    cancelTelling = undefined
  }

  const tell = () => {
    stopTelling()
    for (const part of open.values()) {
      if (part.untold === "") continue
      const { messageId, id: partId, size, untold: text } = part
      part.untold = ""
      const offset = size - text.length
      const event = { rev: rev(), type: "part.delta", messageId, partId, offset, text }
      sockets.broadcast(JSON.stringify(event))
    }
  }

  return {
    tell,
    take: (messageId, named, kind, delta) => {
      const part = find(messageId, named ?? messages.unnamedPart(messageId, kind))
      if (!part || part.size + delta.length >= ROOM) return false
      part.waiting += delta
      part.untold += delta
      part.size += delta.length
      // At the next turn of the loop: a host that is behind tells many words at once, and so catches up.
      cancelTelling ??= later(0, tell)
      waiting += bytesOf(delta)
      return true
    },
    write: () => {
      for (const part of open.values()) {
        if (part.waiting !== "") messages.growPart(part.messageId, part.id, part.waiting)
        part.waiting = ""
      }
      waiting = 0
    },
    writeNow: (messageId, named, kind, delta) => {
      if (delta === "" || !messages.isStreaming(messageId)) return
      const base = named ?? messages.unnamedPart(messageId, kind)
      tell()
      open.delete(keyOf(messageId, base))
      messages.startPart(messageId, base, kind, delta)
    },
    close: (messageId) => {
      tell()
      for (const [key, part] of open) if (part.messageId === messageId) open.delete(key)
    },
    waiting: () => waiting,
    forget: () => {
      stopTelling()
      open.clear()
      waiting = 0
    },
  }
}

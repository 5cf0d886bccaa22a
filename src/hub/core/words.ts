/**
 * Words as they stream in: told to clients at once, written in batches. What is not written is not acknowledged, so a
 * host that dies in between gets it again.
 */
import type { Messages, WordKind } from "./messages.ts"
import type { Sockets } from "./ports.ts"

export interface Words {
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
  readonly waiting: () => number
  /** Forgets what it knows of the rows: the transaction they were read in did not go through, or a message ended. */
  readonly forget: () => void
}

interface OpenPart {
  readonly messageId: string
  readonly id: string
  size: number
  waiting: string
}

/** A row is left well before it is full, so that no batch can overfill it. */
const ROOM = 400_000

export const createWords = (messages: Messages, sockets: Sockets, rev: () => number): Words => {
  const open = new Map<string, OpenPart>()
  const keyOf = (messageId: string, base: string) => `${messageId}\n${base}`
  let waiting = 0

  const find = (messageId: string, base: string): OpenPart | undefined => {
    const known = open.get(keyOf(messageId, base))
    if (known) return known
    const row = messages.isStreaming(messageId) ? messages.openPart(messageId, base) : undefined
    if (!row) return undefined
    const part = { messageId, id: row.id, size: row.size, waiting: "" }
    open.set(keyOf(messageId, base), part)
    return part
  }

  return {
    take: (messageId, named, kind, delta) => {
      const part = find(messageId, named ?? messages.unnamedPart(messageId, kind))
      if (!part || part.size + delta.length >= ROOM) return false
      const event = {
        type: "part.delta",
        messageId,
        partId: part.id,
        offset: part.size,
        text: delta,
      }
      sockets.broadcast(JSON.stringify({ rev: rev(), ...event }))
      part.waiting += delta
      part.size += delta.length
      waiting += delta.length
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
      open.delete(keyOf(messageId, base))
      messages.startPart(messageId, base, kind, delta)
    },
    waiting: () => waiting,
    forget: () => {
      open.clear()
      waiting = 0
    },
  }
}

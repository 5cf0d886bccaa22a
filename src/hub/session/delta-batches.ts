/**
 * Text deltas of a running turn: broadcast to clients on the next tick, written in batches. Unwritten deltas are not
 * acknowledged, so after a crash the runner sends them again.
 */
import type { PartData } from "../../wire/clients/conversation.ts"
import type { DeltaKind } from "./message-parts.ts"
import type { Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { utf8Length } from "./text.ts"

export interface DeltaBatches {
  /** Buffers a delta. False when it must be written at once with `writeNow`: it starts a part, or the row is full. */
  readonly add: (
    messageId: string,
    base: string | undefined,
    kind: DeltaKind,
    delta: string,
  ) => boolean
  /** Writes the buffered deltas. Inside a transaction. */
  readonly write: () => void
  /** Writes a delta that `add` did not take. A message that has ended ignores it. Inside a transaction. */
  readonly writeNow: (
    messageId: string,
    base: string | undefined,
    kind: DeltaKind,
    delta: string,
    data?: PartData,
  ) => void
  readonly unwrittenBytes: () => number
  /** Sends clients the deltas that they do not have yet. Must run before any other event is sent. */
  readonly broadcast: () => void
  /** The message has ended and its deltas are written. */
  readonly close: (messageId: string) => void
  /** The parts are withdrawn. Their text is not sent any more. */
  readonly drop: (messageId: string, bases: readonly string[]) => void
  /** After a rollback: forgets the buffers and what was read from the rows. */
  readonly discard: () => void
}

interface OpenPart {
  readonly messageId: string
  readonly id: string
  size: number
  unwritten: string
  unsent: string
}

/** Below the limit of a row (`ROW_CHARACTERS`), so that no batch exceeds it. */
const MAX_ROW_CHARACTERS = 400_000

export const createDeltaBatches = (
  messages: Messages,
  { sockets, later }: Pick<Ports, "sockets" | "later">,
  rev: () => number,
): DeltaBatches => {
  const open = new Map<string, OpenPart>()
  const keyOf = (messageId: string, base: string) => `${messageId}\n${base}`
  let unwrittenBytes = 0
  let cancelBroadcast: (() => void) | undefined

  const find = (messageId: string, base: string): OpenPart | undefined => {
    if (!messages.isStreaming(messageId)) return undefined
    const known = open.get(keyOf(messageId, base))
    if (known) return known
    const row = messages.openPart(messageId, base)
    if (!row) return undefined
    const part = { messageId, id: row.id, size: row.size, unwritten: "", unsent: "" }
    open.set(keyOf(messageId, base), part)
    return part
  }

  const stopTimer = () => {
    cancelBroadcast?.()
    cancelBroadcast = undefined
  }

  const broadcast = () => {
    stopTimer()
    for (const part of open.values()) {
      if (part.unsent === "") continue
      const { messageId, id: partId, size, unsent: text } = part
      part.unsent = ""
      const offset = size - text.length
      const event = { rev: rev(), type: "part.delta", messageId, partId, offset, text }
      sockets.broadcast(JSON.stringify(event))
    }
  }

  return {
    broadcast,
    add: (messageId, named, kind, delta) => {
      const part = find(messageId, named ?? messages.unnamedPart(messageId, kind))
      if (!part || part.size + delta.length >= MAX_ROW_CHARACTERS) return false
      part.unwritten += delta
      part.unsent += delta
      part.size += delta.length
      // On the next tick: a host that is behind sends many deltas as one event and so catches up.
      cancelBroadcast ??= later(0, broadcast)
      unwrittenBytes += utf8Length(delta)
      return true
    },
    write: () => {
      for (const part of open.values()) {
        if (part.unwritten !== "") messages.appendToPart(part.messageId, part.id, part.unwritten)
        part.unwritten = ""
      }
      unwrittenBytes = 0
    },
    writeNow: (messageId, named, kind, delta, data) => {
      if (delta === "" || !messages.isStreaming(messageId)) return
      const base = named ?? messages.unnamedPart(messageId, kind)
      broadcast()
      open.delete(keyOf(messageId, base))
      messages.startPart(messageId, base, kind, delta, data)
    },
    close: (messageId) => {
      broadcast()
      for (const [key, part] of open) if (part.messageId === messageId) open.delete(key)
    },
    drop: (messageId, bases) => {
      for (const base of bases) open.delete(keyOf(messageId, base))
    },
    unwrittenBytes: () => unwrittenBytes,
    discard: () => {
      stopTimer()
      open.clear()
      unwrittenBytes = 0
    },
  }
}

/** Acknowledgements to the runner: of what is written, for many frames at once, never long after. */
import type { SessionContext } from "./session-context.ts"

export interface Acks {
  /** A frame was taken: it is acknowledged soon, once it is written. */
  readonly soon: () => void
  readonly stop: () => void
}

const ACK_MS = 50
const ACK_FRAMES = 64

export const createAcks = ({ ports, link }: SessionContext): Acks => {
  let frames = 0
  let cancel: (() => void) | undefined
  const stop = () => {
    cancel?.()
    cancel = undefined
    frames = 0
  }
  const acknowledge = () => {
    stop()
    const { connection, epoch } = link.now()
    if (connection === null || epoch === null) return
    ports.sockets.send(connection, JSON.stringify({ type: "ack", seq: link.storedSeq(epoch) }))
  }
  return {
    stop,
    soon: () => {
      frames += 1
      if (frames >= ACK_FRAMES) return acknowledge()
      cancel ??= ports.later(ACK_MS, acknowledge)
    },
  }
}

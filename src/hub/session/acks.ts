/** Acknowledgements to the runner: one for many frames, and only for frames that are written. */
import type { SessionContext } from "./session-context.ts"

export interface Acks {
  /** A frame was received: an acknowledgement of everything written is sent within 50 ms. */
  readonly schedule: () => void
  readonly cancel: () => void
}

const ACK_MS = 50
const ACK_FRAMES = 64

export const createAcks = ({ ports, runnerConnection }: SessionContext): Acks => {
  let frames = 0
  let cancelTimer: (() => void) | undefined
  const cancel = () => {
    cancelTimer?.()
    cancelTimer = undefined
    frames = 0
  }
  const acknowledge = () => {
    cancel()
    const { connection, epoch } = runnerConnection.state()
    if (connection === null || epoch === null) return
    const ack = { type: "ack", seq: runnerConnection.storedSeq(epoch) }
    ports.sockets.send(connection, JSON.stringify(ack))
  }
  return {
    cancel,
    schedule: () => {
      frames += 1
      if (frames >= ACK_FRAMES) return acknowledge()
      cancelTimer ??= ports.later(ACK_MS, acknowledge)
    },
  }
}

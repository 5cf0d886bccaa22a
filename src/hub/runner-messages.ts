/** The frames of one runner's connection in slices, with few requests open at a time. The same for every host. */
import { createPacedMessages, type PacedMessages } from "./paced-messages.ts"
import type { Session } from "./session/session.ts"
import { MOST_OPEN_REQUESTS } from "./session/runner-requests.ts"

export interface RunnerMessagesOptions {
  /** Undefined when the session is gone. */
  readonly runner: () => Session["runner"] | undefined
  readonly receive: (text: string) => void
  readonly close: (code: number, reason: string) => void
  readonly setReading?: (isReading: boolean) => void
  readonly now: () => number
  readonly soon: (run: () => void) => void
  readonly sliceStarts?: number
  readonly sliceMessages?: number
  readonly maxWaiting?: number
}

/** The longest message of a runner. */
export const MAX_FRAME_BYTES = 32 * 1024 * 1024
const PING = '{"type":"ping"}'
/** There are many runners, and each has its slice. */
const SLICE_MS = 8

export const createRunnerMessages = ({
  runner,
  receive,
  close,
  ...pace
}: RunnerMessagesOptions): PacedMessages => {
  const open = () => runner()?.requests.open() ?? 0
  let isWaiting = false
  let isPinged = false
  /** The first message is the greeting: it is handled although requests of the connection before are open. */
  let isGreeted = false
  const wakeWithRoom = async () => {
    await runner()?.requests.room()
    isWaiting = false
    made.wake()
  }
  /** Asks for a call when there is room, at most once at a time. */
  const mayHandle = () => {
    if (!isGreeted || open() < MOST_OPEN_REQUESTS) return true
    if (isWaiting) return false
    isWaiting = true
    void wakeWithRoom()
    return false
  }
  const made = createPacedMessages({
    ...pace,
    handle: (text) => {
      isGreeted = true
      const before = open()
      receive(text)
      return open() > before
    },
    mayHandle,
    // The runner connects again and sends what is not stored.
    tooMany: () => close(4000, "Resend from what is stored"),
    sliceMs: SLICE_MS,
    maxCharacters: 2 * MAX_FRAME_BYTES,
  })
  const answerPings = () => {
    isPinged = false
    receive(PING)
  }
  return {
    ...made,
    push: (text) => {
      if (text !== PING) return made.push(text)
      // A ping waits for no other message, or the runner would take a hub that holds its requests for a dead one.
      if (!isPinged) pace.soon(answerPings)
      isPinged = true
    },
  }
}

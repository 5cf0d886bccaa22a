/**
 * Handles a client's messages in order and in slices of time. One read of a socket may hold thousands of messages: without
 * slices one client stalls every session of the hub.
 */
export interface PacedMessages {
  readonly push: (text: string) => void
  readonly stop: () => void
}

export interface PacedMessagesOptions {
  readonly handle: (text: string) => void
  /** The client sends faster than the hub can handle; it should be disconnected. */
  readonly tooMany: () => void
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number
  /** Runs after other work of the process had its turn. */
  readonly soon: (run: () => void) => void
}

const SLICE_MS = 20
/** Far more than a person's client sends; about a second of work. */
const MAX_WAITING = 20_000
const MAX_WAITING_CHARACTERS = 8 * 1024 * 1024

export const createPacedMessages = (options: PacedMessagesOptions): PacedMessages => {
  const { now, soon } = options
  let waiting: string[] = []
  let characters = 0
  let spentMs = 0
  let isScheduled = false
  let isStopped = false

  const handle = (text: string) => {
    const from = now()
    options.handle(text)
    spentMs += now() - from
  }
  const schedule = () => {
    if (isScheduled) return
    isScheduled = true
    soon(nextSlice)
  }
  const nextSlice = () => {
    isScheduled = false
    spentMs = 0
    let handled = 0
    while (!isStopped && handled < waiting.length && spentMs < SLICE_MS) {
      const text = waiting[handled] ?? ""
      handled += 1
      characters -= text.length
      handle(text)
    }
    waiting = waiting.slice(handled)
    if (waiting.length > 0) schedule()
  }

  return {
    push: (text) => {
      if (isStopped) return
      schedule()
      if (waiting.length === 0 && spentMs < SLICE_MS) return handle(text)
      waiting.push(text)
      characters += text.length
      if (waiting.length <= MAX_WAITING && characters <= MAX_WAITING_CHARACTERS) return
      isStopped = true
      waiting = []
      options.tooMany()
    },
    stop: () => {
      isStopped = true
      waiting = []
    },
  }
}

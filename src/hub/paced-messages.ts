/**
 * Handles the messages of one connection in order and in slices. One read of a socket may hold thousands of messages, and the Workers
 * runtime delivers them without waiting for their handler: without slices one client or one runner stalls every session of the hub.
 */
export interface PacedMessages {
  readonly push: (text: string) => void
  /** Messages that were held may be handled now. */
  readonly wake: () => void
  /** The peer sends no more: `done` runs after the messages that wait. */
  readonly end: (done: () => void) => void
  /** Drops the messages that wait. */
  readonly stop: () => void
}

export interface PacedMessagesOptions {
  /** Returns true if it started work that goes on after it: a slice has a few of these. */
  readonly handle: (text: string) => boolean | void
  /** False: the next message waits for `wake`. */
  readonly mayHandle?: () => boolean
  /** The peer sends faster than the hub can handle; it should be disconnected. */
  readonly tooMany: () => void
  /** Stops and starts reading from the socket. */
  readonly setReading?: (isReading: boolean) => void
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number
  /** Runs after other work of the process had its turn. */
  readonly soon: (run: () => void) => void
  readonly sliceMs?: number
  /** Messages of a slice that start work. */
  readonly sliceStarts?: number
  /** For a host whose clock stands still while a program runs. */
  readonly sliceMessages?: number
  readonly maxWaiting?: number
  readonly maxCharacters?: number
}

const SLICE_MS = 20
const SLICE_STARTS = 4
/** Far more than a person's client sends; about a second of work. */
const MAX_WAITING = 20_000
const MAX_WAITING_CHARACTERS = 8 * 1024 * 1024
/** With more than this nothing is read from the socket until all of it is handled: no ping either, which shows a live peer. */
const READ_AHEAD = 1000
const READ_AHEAD_CHARACTERS = 1024 * 1024

export const createPacedMessages = (options: PacedMessagesOptions): PacedMessages => {
  const { now, soon, setReading, mayHandle = () => true } = options
  const { sliceMs = SLICE_MS, sliceStarts = SLICE_STARTS } = options
  const { sliceMessages = Number.POSITIVE_INFINITY } = options
  const { maxWaiting = MAX_WAITING, maxCharacters = MAX_WAITING_CHARACTERS } = options
  let waiting: string[] = []
  let characters = 0
  let spentMs = 0
  let handledInSlice = 0
  let started = 0
  let isScheduled = false
  let isReading = true
  let isStopped = false
  let ended: (() => void) | undefined

  const hasTime = () =>
    spentMs < sliceMs && handledInSlice < sliceMessages && started < sliceStarts && mayHandle()
  const handle = (text: string) => {
    const from = now()
    if (options.handle(text) === true) started += 1
    handledInSlice += 1
    spentMs += now() - from
  }
  const read = (next: boolean) => {
    if (!setReading || next === isReading) return
    isReading = next
    setReading(next)
  }
  const schedule = () => {
    if (isScheduled) return
    isScheduled = true
    soon(nextSlice)
  }
  const finish = () => {
    const done = ended
    isStopped = true
    done?.()
  }
  const nextSlice = () => {
    isScheduled = false
    spentMs = 0
    handledInSlice = 0
    started = 0
    let handled = 0
    while (!isStopped && handled < waiting.length && hasTime()) {
      const text = waiting[handled] ?? ""
      handled += 1
      characters -= text.length
      handle(text)
    }
    waiting = waiting.slice(handled)
    if (isStopped) return
    if (waiting.length > 0) return mayHandle() ? schedule() : undefined
    if (ended) return finish()
    read(true)
  }

  return {
    push: (text) => {
      if (isStopped || ended) return
      schedule()
      if (waiting.length === 0 && hasTime()) return handle(text)
      waiting.push(text)
      characters += text.length
      if (waiting.length > READ_AHEAD || characters > READ_AHEAD_CHARACTERS) read(false)
      if (waiting.length <= maxWaiting && characters <= maxCharacters) return
      isStopped = true
      waiting = []
      options.tooMany()
    },
    wake: () => {
      if (!isStopped && waiting.length > 0) schedule()
    },
    end: (done) => {
      if (isStopped || waiting.length === 0) {
        isStopped = true
        return done()
      }
      ended = done
    },
    stop: () => {
      isStopped = true
      waiting = []
    },
  }
}

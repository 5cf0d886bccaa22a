/** What runs on a channel: usually one job, or two while a prompt steers the running turn. */
import type { Job } from "./jobs.ts"
import type { RunningTurn } from "./turn-effects.ts"

/** A job in preparation, then its turn; or exclusive work. */
export interface Slot {
  job: Job | undefined
  readonly stopping: AbortController
  turn: RunningTurn | undefined
  /** Set for exclusive work; resolves when it has ended. */
  workEnded: Promise<void> | undefined
}

export interface Slots {
  readonly open: (job: Job | undefined) => Slot
  readonly close: (slot: Slot) => void
  readonly all: () => readonly Slot[]
  readonly turns: () => readonly RunningTurn[]
}

/** `onClosed`: the channel may be free for the next entry of its queue. */
export const createSlots = (onClosed: () => void): Slots => {
  let slots: readonly Slot[] = []
  return {
    open: (job) => {
      const stopping = new AbortController()
      const slot: Slot = { job, stopping, turn: undefined, workEnded: undefined }
      slots = [...slots, slot]
      return slot
    },
    close: (slot) => {
      slots = slots.filter((other) => other !== slot)
      onClosed()
    },
    all: () => slots,
    turns: () => slots.flatMap(({ turn }) => turn ?? []),
  }
}

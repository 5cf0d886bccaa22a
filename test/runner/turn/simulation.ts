/** Runs a turn against a recording. A tape of numbers decides where the stream is cut, the runner is killed or an event is repeated. */
import type { OutboundFrame } from "../../../src/wire/frames/index.ts"
import {
  changedTexts,
  changedTurn,
  restoreTurn,
  type SavedText,
  type SavedTurn,
} from "../../../src/runner/turn/turn-record.ts"
import { step } from "../../../src/runner/turn/step.ts"
import {
  newTurn,
  type Outcome,
  type ReadReason,
  type Turn,
  type TurnEvent,
} from "../../../src/runner/turn/turn.ts"
import { createStore, type Recorded, type RecordedPrompt } from "./recorded.ts"

export interface Run {
  readonly frames: readonly OutboundFrame[]
  readonly outcomes: readonly Outcome[]
  /** The stream was cut or the runner killed: text may arrive late and in one piece. */
  readonly isBroken: boolean
  readonly turn: Turn
}

export interface Faults {
  /** After how many of a thousand events each fault occurs. */
  readonly cut: number
  readonly kill: number
  readonly repeat: number
}

/** The stored turn: every write is atomic, like that of the outbox. */
const createDisk = () => {
  let turn: SavedTurn | undefined
  let written: Turn | undefined
  const texts = new Map<string, SavedText>()
  return {
    write: (now: Turn): void => {
      turn = changedTurn(now, written) ?? turn
      for (const part of changedTexts(now, written)) texts.set(part.id, part)
      written = now
    },
    read: (): Turn => {
      if (!turn) throw new Error("nothing was written")
      const saved: SavedTurn = JSON.parse(JSON.stringify(turn))
      written = undefined
      return restoreTurn(saved, [...texts.values()])
    },
  }
}

export const simulate = (
  prompt: RecordedPrompt,
  tape: readonly number[],
  faults: Faults = { cut: 20, kill: 20, repeat: 60 },
): Run => {
  let place = 0
  const draw = (below: number): number => {
    const value = tape[place % Math.max(1, tape.length)] ?? 0
    place += 1
    return value % below
  }
  const { sessionId, userMessageId, events } = prompt
  const identity = {
    promptId: "prompt-1",
    turnId: "turn-1",
    channelType: "web",
    channelId: "default",
    agentSessionId: sessionId,
    userMessageId,
  }
  const store = createStore(prompt)
  const disk = createDisk()
  const frames: OutboundFrame[] = []
  const outcomes: Outcome[] = []
  let turn = newTurn(identity)
  let reads: { readonly why: ReadReason; readonly due: number }[] = []
  let timers = new Map<string, number>()
  let now = events[0]?.at ?? 0
  let index = 0
  let isBroken = false
  /** Events that may be repeated: a missed event cannot arrive later. */
  const received: Recorded[] = []

  const dispatch = (event: TurnEvent): void => {
    const [next, effects] = step(turn, event, now)
    turn = next
    for (const effect of effects) {
      if (effect.do === "send") frames.push(effect.frame)
      if (effect.do === "read") reads.push({ why: effect.why, due: index + draw(4) })
      if (effect.do === "timer") timers.set(effect.name, now + effect.ms)
      if (effect.do === "ended") outcomes.push(effect.outcome)
    }
    disk.write(turn)
  }
  const answerReads = (isLast: boolean): void => {
    const due = reads.filter((read) => isLast || read.due <= index)
    reads = reads.filter((read) => !due.includes(read))
    for (const { why } of due) dispatch({ type: "read", why, snapshot: store.snapshot() })
  }
  const fireTimers = (until: number): void => {
    for (const [name, at] of [...timers].toSorted(([, a], [, b]) => a - b)) {
      if (at > until) continue
      timers.delete(name)
      now = Math.max(now, at)
      dispatch({ type: "timer", name: name as "post-check" })
    }
  }
  /** Skips events: OpenCode stores them, but the turn does not receive them. */
  const miss = (count: number): void => {
    for (const recorded of events.slice(index, index + count)) store.apply(recorded)
    index = Math.min(events.length, index + count)
  }

  dispatch({ type: "start" })
  while (index < events.length) {
    const recorded = events[index]
    if (!recorded) break
    fireTimers(recorded.at)
    now = recorded.at
    index += 1
    store.apply(recorded)
    received.push(recorded)
    dispatch({ type: "agent", event: recorded.event })
    const fate = draw(1000)
    if (fate < faults.cut) {
      isBroken = true
      miss(draw(12))
      dispatch({ type: "stream-gap" })
    } else if (fate < faults.cut + faults.kill) {
      isBroken = true
      reads = []
      timers = new Map()
      turn = disk.read()
      miss(draw(12))
      dispatch({ type: "resume" })
    } else if (fate < faults.cut + faults.kill + faults.repeat) {
      const earlier = received[draw(received.length)]
      // Deltas have ids and the stream reader drops duplicates; any other event may arrive twice.
      if (earlier && earlier.event.type !== "delta")
        dispatch({ type: "agent", event: earlier.event })
    }
    answerReads(false)
  }
  for (let round = 0; round < 20 && turn.phase !== "ended"; round += 1) {
    answerReads(true)
    fireTimers(now + 10_000)
  }
  return { frames, outcomes, isBroken, turn }
}

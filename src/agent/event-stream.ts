/**
 * OpenCode's event stream as one owned subscription: it comes back by itself, says when something may have been
 * missed, and never delivers an event twice or from a connection that was given up.
 */
import { createParser } from "eventsource-parser"
import { backoffMs } from "../lib/backoff.ts"
import { type Clock, sleep } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import { type AgentEvent, parseAgentEvent } from "./events.ts"

export interface EventStreamOptions {
  readonly open: (signal: AbortSignal) => Promise<Response>
  readonly clock: Clock
  readonly log: Log
  readonly onEvent: (event: AgentEvent) => void
  /** Subscribed: `gap` when an earlier subscription was lost, so events in between are unknown. */
  readonly onSubscribed: (gap: boolean) => void
  /** Something to wait for before more is read, when what the events become has nowhere to go. */
  readonly room: () => Promise<void> | undefined
  readonly silenceMs?: number
}

/** Three heartbeats of OpenCode: a stream silent for longer is dead, whatever TCP says. */
const SILENCE_MS = 30_000
const BACKOFF = { min: 100, max: 5000 }
/** An event is at most repeated within one burst; remembering this many ids is plenty. */
const REMEMBERED_IDS = 4096

/** Runs until the signal; it only returns, it does not fail. */
export const runEventStream = async (
  options: EventStreamOptions,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, log } = options
  const read = createReader(options)
  let subscribedBefore = false
  let failures = 0
  while (!signal.aborted) {
    const generation = new AbortController()
    const give = () => generation.abort()
    signal.addEventListener("abort", give)
    try {
      await readOnce(options, generation, (data) => {
        const event = read(data)
        if (!event || generation.signal.aborted) return
        if (event.type === "connected") {
          options.onSubscribed(subscribedBefore)
          subscribedBefore = true
          failures = 0
          return
        }
        options.onEvent(event)
      })
      if (!signal.aborted) log.warn("agent.stream-ended", {})
    } catch (error) {
      if (!signal.aborted) log.warn("agent.stream-lost", { error: describeError(error) })
    } finally {
      signal.removeEventListener("abort", give)
      generation.abort()
    }
    // The first return is at once: most cuts are momentary, and every moment is one of unknown events.
    if (failures > 0) await sleep(clock, backoffMs(failures - 1, BACKOFF, Math.random()), signal)
    failures += 1
  }
}

const readOnce = async (
  { open, clock, room, silenceMs = SILENCE_MS }: EventStreamOptions,
  generation: AbortController,
  onData: (data: string) => void,
): Promise<void> => {
  let cancelWatch = () => {}
  const watch = () => {
    cancelWatch()
    cancelWatch = clock.after(silenceMs, () =>
      generation.abort(new Error(`no bytes from OpenCode in ${silenceMs} ms`)),
    )
  }
  watch()
  try {
    const response = await open(generation.signal)
    const parser = createParser({ onEvent: ({ data }) => onData(data) })
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      if (generation.signal.aborted) break
      parser.feed(decoder.decode(chunk, { stream: true }))
      cancelWatch()
      await room()
      watch()
    }
    generation.signal.throwIfAborted()
  } finally {
    cancelWatch()
  }
}

/** From the data of one frame to an event; what cannot be used is counted, and said once for each kind. */
const createReader = ({ log }: EventStreamOptions): ((data: string) => AgentEvent | undefined) => {
  const toldOf = new Set<string>()
  const seen = new Set<string>()
  const tellOnce = (event: string, type: string, problem?: string) => {
    if (toldOf.has(event + type)) return
    toldOf.add(event + type)
    log.warn(event, { type, ...(problem !== undefined && { problem }) })
  }
  const isRepeat = (id: string): boolean => {
    if (seen.has(id)) return true
    seen.add(id)
    const oldest = seen.size > REMEMBERED_IDS ? seen.values().next().value : undefined
    if (oldest !== undefined) seen.delete(oldest)
    return false
  }
  return (data) => {
    let json: unknown
    try {
      json = JSON.parse(data)
    } catch {
      tellOnce("agent.event-malformed", "?", "not JSON")
      return undefined
    }
    const parsed = parseAgentEvent(json)
    switch (parsed.kind) {
      case "unused":
        if (!parsed.known) tellOnce("agent.event-unknown", parsed.type)
        return undefined
      case "malformed":
        tellOnce("agent.event-malformed", parsed.type, parsed.problem)
        return undefined
      case "event":
        return parsed.id !== undefined && isRepeat(parsed.id) ? undefined : parsed.event
    }
  }
}

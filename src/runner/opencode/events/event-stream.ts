/**
 * OpenCode's event stream as one owned subscription: it comes back by itself, fetches what it missed, and never
 * delivers an event twice or from a connection that was given up.
 */
import { backoffMs } from "../../../lib/backoff.ts"
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import type { AgentClient } from "../client/client.ts"
import type { AgentEvent, ParsedEvent } from "./events.ts"
import { parseAgentEvent, parseDurable } from "./parse-event.ts"
import { readFrames } from "./sse-frames.ts"

export interface EventStreamOptions {
  readonly client: Pick<AgentClient, "openEvents" | "history" | "sessionIds">
  readonly clock: Clock
  readonly log: Log
  readonly onEvent: (event: AgentEvent) => void
  /** Subscribed: `gap` when an earlier subscription was lost, so what is not durable in between is unknown. */
  readonly onSubscribed: (gap: boolean) => void
  /**
   * The first event of a subscription is here. OpenCode greets before it listens to itself: what happened between the
   * greeting and now was told to nobody.
   */
  readonly onFirstEvent: () => void
  /** Something to wait for before more is read, when what the events become has nowhere to go. */
  readonly room: () => Promise<void> | undefined
  /** Of OpenCode: how often it sends a heartbeat depends on it. */
  readonly version?: string
  readonly silenceMs?: number
}

/** Three heartbeats of OpenCode, of which there is one in ten seconds (thirty before 1.2). */
const SILENCE_MS = 30_000
const OLD_SILENCE_MS = 90_000
const BACKOFF = { min: 100, max: 5000 }
/** An event is at most repeated within one burst; remembering this many ids is plenty. */
const REMEMBERED_IDS = 4096

/** Runs until the signal; it only returns, it does not fail. */
export const runEventStream = async (
  options: EventStreamOptions,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, log, version = "" } = options
  const silenceMs = options.silenceMs ?? (/^1\.[01]\./.test(version) ? OLD_SILENCE_MS : SILENCE_MS)
  const deliver = createDelivery(options)
  let subscribedBefore = false
  let failures = 0
  while (!signal.aborted) {
    const generation = new AbortController()
    const give = () => generation.abort()
    signal.addEventListener("abort", give)
    const cancelOpening = clock.after(silenceMs, give)
    try {
      const response = await options.client.openEvents(generation.signal)
      cancelOpening()
      if (response.body) {
        for await (const frames of readFrames(response.body, generation, { clock, silenceMs })) {
          for (const data of frames) {
            const delivered = deliver(data, subscribedBefore)
            // Nearly every frame is delivered on the spot; waiting for each would make a disk write of each.
            const isStart = typeof delivered === "boolean" ? delivered : await delivered
            if (!isStart) continue
            subscribedBefore = true
            failures = 0
          }
          const room = options.room()
          if (room) await room
        }
      }
      if (!signal.aborted) log.warn("agent.stream-ended", {})
    } catch (error) {
      if (!signal.aborted) log.warn("agent.stream-lost", { error: describeError(error) })
    } finally {
      cancelOpening()
      signal.removeEventListener("abort", give)
      generation.abort()
    }
    // The first return is at once: most cuts are momentary, and every moment is one of unknown events.
    if (failures > 0) await sleep(clock, backoffMs(failures - 1, BACKOFF, Math.random()), signal)
    failures += 1
  }
}

/** One frame after the other; true when it was the first of a subscription. */
const createDelivery = (options: EventStreamOptions) => {
  const { log } = options
  const read = createReader(log)
  const isRepeat = createMemory()
  /** The last number of each session; only sessions that were heard of are in it. */
  const numbers = new Map<string, number>()
  let isGreetingOnly = false

  const take = (parsed: ParsedEvent | undefined): void => {
    if (parsed?.kind === "durable") {
      numbers.set(
        parsed.agentSessionId,
        Math.max(parsed.seq, numbers.get(parsed.agentSessionId) ?? -1),
      )
      if (parsed.event && !isRepeat(parsed.id)) options.onEvent(parsed.event)
    }
    if (parsed?.kind === "event" && !(parsed.id !== undefined && isRepeat(parsed.id))) {
      options.onEvent(parsed.event)
    }
  }

  /** Durable events come whole and in order, and those that were delivered are known by their id. */
  const catchUp = async (): Promise<void> => {
    if (numbers.size === 0) return
    try {
      // A session that is not named comes with all its history, so every one there is gets a number.
      const unknown = (await options.client.sessionIds()).map((id) => [id, Number.MAX_SAFE_INTEGER])
      const after = { ...Object.fromEntries(unknown), ...Object.fromEntries(numbers) }
      const missed = await options.client.history(after)
      for (const durable of missed) take(parseDurable(durable))
      if (missed.length > 0) log.info("agent.stream-caught-up", { events: missed.length })
    } catch (error) {
      log.warn("agent.history-failed", { error: describeError(error) })
    }
  }

  const subscribed = async (again: boolean): Promise<boolean> => {
    if (again) await catchUp()
    options.onSubscribed(again)
    return true
  }
  const closeHole = async (parsed: ParsedEvent): Promise<boolean> => {
    await catchUp()
    options.onSubscribed(true)
    take(parsed)
    return false
  }

  return (data: string, subscribedBefore: boolean): boolean | Promise<boolean> => {
    const parsed = read(data)
    if (parsed?.kind === "event" && parsed.event.type === "connected") {
      isGreetingOnly = true
      return subscribed(subscribedBefore)
    }
    if (isGreetingOnly) {
      isGreetingOnly = false
      options.onFirstEvent()
    }
    if (parsed?.kind === "durable" && isHole(numbers.get(parsed.agentSessionId), parsed.seq)) {
      return closeHole(parsed)
    }
    take(parsed)
    return false
  }
}

const isHole = (last: number | undefined, seq: number): boolean =>
  last !== undefined && seq > last + 1

/** The last ids, in a ring beside the set: asking a set for its oldest walks over all it has forgotten. */
const createMemory = () => {
  const seen = new Set<string>()
  const ring: string[] = []
  let place = 0
  return (id: string): boolean => {
    if (seen.has(id)) return true
    const oldest = ring[place]
    if (oldest !== undefined) seen.delete(oldest)
    ring[place] = id
    place = (place + 1) % REMEMBERED_IDS
    seen.add(id)
    return false
  }
}

/** From the data of one frame to what it says; what cannot be used is counted, and said once for each kind. */
const createReader = (log: Log): ((data: string) => ParsedEvent | undefined) => {
  const counts = new Map<string, number>()
  const count = (event: string, type: string, problem?: string): undefined => {
    const key = `${event} ${type}`
    const times = (counts.get(key) ?? 0) + 1
    counts.set(key, times)
    // At 1, 10, 100 and so on: a stream that is all wrong is seen to be, and does not fill the log.
    if (Number.isInteger(Math.log10(times))) {
      log.warn(event, { type, times, ...(problem !== undefined && { problem }) })
    }
  }
  return (data) => {
    let json: unknown
    try {
      json = JSON.parse(data)
    } catch {
      return count("agent.event-malformed", "?", "not JSON")
    }
    const parsed = parseAgentEvent(json)
    if (parsed.kind === "malformed") {
      return count("agent.event-malformed", parsed.type, parsed.problem)
    }
    if (parsed.kind === "unused") {
      return parsed.known ? undefined : count("agent.event-unknown", parsed.type)
    }
    return parsed
  }
}

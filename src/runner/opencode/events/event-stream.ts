/**
 * The subscription to OpenCode's event stream. It reconnects, fetches the durable events that it missed, and never
 * delivers an event twice or from an abandoned connection.
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
  /** Called for every connection, also after a reconnect. */
  readonly onSubscribed: () => void
  /** Events were lost: the durable ones have been fetched and delivered, the others are unknown. */
  readonly onStreamGap: () => void
  /**
   * Called before the first event of a connection is delivered. OpenCode sends `server.connected` before it subscribes
   * to its own events, so events between the two are lost.
   */
  readonly onFirstEvent: () => void
  /** Returns a promise while consumers are full; nothing more is read until it resolves. */
  readonly backpressure: () => Promise<void> | undefined
  /** OpenCode's version: the heartbeat interval depends on it. */
  readonly version?: string
  readonly silenceMs?: number
}

/** Three heartbeat intervals: OpenCode sends one every 10 s, every 30 s before 1.2. */
const SILENCE_MS = 30_000
const OLD_SILENCE_MS = 90_000
const BACKOFF = { min: 100, max: 5000 }
/** Repeats are only seen within one burst, so this many ids are enough. */
const REMEMBERED_IDS = 4096

/** Resolves when the signal aborts; never rejects. */
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
    const connection = new AbortController()
    const abandon = () => connection.abort()
    signal.addEventListener("abort", abandon)
    const cancelOpenTimeout = clock.after(silenceMs, abandon)
    try {
      const response = await options.client.openEvents(connection.signal)
      cancelOpenTimeout()
      if (response.body) {
        for await (const frames of readFrames(response.body, connection, { clock, silenceMs })) {
          for (const data of frames) {
            const delivered = deliver(data, subscribedBefore)
            // Awaited only when needed: awaiting every frame would cause a disk write for each.
            const isConnected = typeof delivered === "boolean" ? delivered : await delivered
            if (!isConnected) continue
            subscribedBefore = true
            failures = 0
          }
          const hasRoom = options.backpressure()
          if (hasRoom) await hasRoom
        }
      }
      if (!signal.aborted) log.warn("agent.stream-ended", {})
    } catch (error) {
      if (!signal.aborted) log.warn("agent.stream-lost", { error: describeError(error) })
    } finally {
      cancelOpenTimeout()
      signal.removeEventListener("abort", abandon)
      connection.abort()
    }
    // The first reconnect is immediate: most cuts are short, and events are lost while disconnected.
    if (failures > 0) await sleep(clock, backoffMs(failures - 1, BACKOFF, Math.random()), signal)
    failures += 1
  }
}

/** Delivers one frame; returns true when the frame was `server.connected`. */
const createDelivery = (options: EventStreamOptions) => {
  const { log } = options
  const read = createReader(log)
  const isRepeat = createRepeatFilter()
  /** The last sequence number of each agent session that has sent a durable event. */
  const lastSeqs = new Map<string, number>()
  let awaitsFirstEvent = false

  const deliver = (parsed: ParsedEvent | undefined): void => {
    if (parsed?.kind === "durable") {
      lastSeqs.set(
        parsed.agentSessionId,
        Math.max(parsed.seq, lastSeqs.get(parsed.agentSessionId) ?? -1),
      )
      if (parsed.event && !isRepeat(parsed.id)) options.onEvent(parsed.event)
    }
    if (parsed?.kind === "event" && !(parsed.id !== undefined && isRepeat(parsed.id))) {
      options.onEvent(parsed.event)
    }
  }

  /** Fetches the durable events since the last known ones; delivered ones are filtered by their id. */
  const fetchMissed = async (): Promise<void> => {
    if (lastSeqs.size === 0) return
    try {
      // OpenCode returns the whole history of a session that is not listed, so all the others get the highest number.
      const others = (await options.client.sessionIds()).map((id) => [id, Number.MAX_SAFE_INTEGER])
      const after = { ...Object.fromEntries(others), ...Object.fromEntries(lastSeqs) }
      const missed = await options.client.history(after)
      for (const durable of missed) deliver(parseDurable(durable))
      if (missed.length > 0) log.info("agent.stream-caught-up", { events: missed.length })
    } catch (error) {
      log.warn("agent.history-failed", { error: describeError(error) })
    }
  }

  const onConnected = async (isReconnect: boolean): Promise<boolean> => {
    if (isReconnect) await fetchMissed()
    options.onSubscribed()
    if (isReconnect) options.onStreamGap()
    return true
  }
  const fillHole = async (parsed: ParsedEvent): Promise<boolean> => {
    await fetchMissed()
    options.onStreamGap()
    deliver(parsed)
    return false
  }

  return (data: string, subscribedBefore: boolean): boolean | Promise<boolean> => {
    const parsed = read(data)
    if (parsed?.kind === "event" && parsed.event.type === "connected") {
      awaitsFirstEvent = true
      return onConnected(subscribedBefore)
    }
    if (awaitsFirstEvent) {
      awaitsFirstEvent = false
      options.onFirstEvent()
    }
    if (parsed?.kind === "durable" && isHole(lastSeqs.get(parsed.agentSessionId), parsed.seq)) {
      return fillHole(parsed)
    }
    deliver(parsed)
    return false
  }
}

const isHole = (last: number | undefined, seq: number): boolean =>
  last !== undefined && seq > last + 1

/** Keeps the last ids. The ring finds the oldest one; a Set's iterator would walk over all its deleted entries. */
const createRepeatFilter = () => {
  const seen = new Set<string>()
  const ring: string[] = []
  let position = 0
  return (id: string): boolean => {
    if (seen.has(id)) return true
    const oldest = ring[position]
    if (oldest !== undefined) seen.delete(oldest)
    ring[position] = id
    position = (position + 1) % REMEMBERED_IDS
    seen.add(id)
    return false
  }
}

/** Parses the data of one frame. Unusable frames are skipped, counted by type and logged. */
const createReader = (log: Log): ((data: string) => ParsedEvent | undefined) => {
  const counts = new Map<string, number>()
  const count = (event: string, type: string, problem?: string): undefined => {
    const key = `${event} ${type}`
    const times = (counts.get(key) ?? 0) + 1
    counts.set(key, times)
    // Logged at 1, 10, 100 and so on: visible, without filling the log.
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

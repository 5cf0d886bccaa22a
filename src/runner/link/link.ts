/** The link to the session agent: delivers frames in order and exactly once, reconnecting as often as needed. */
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { createTimers } from "../../lib/timer.ts"
import {
  type CommandFrame,
  isResult,
  type Outbound,
  type OutboundFrame,
  parseInbound,
} from "../../wire/frames/index.ts"
import { isDelta } from "./compact-frames.ts"
import { createCounters, type LinkCounters } from "./counters.ts"
import {
  firstDial,
  isFinal,
  type LinkEffect,
  type LinkEvent,
  type LinkPolicy,
  linkPolicy,
  type LinkState,
  stepLink,
} from "./link-state.ts"
import type { Outbox } from "./outbox.ts"
import { createPendingRequests, type PendingRequests } from "./pending-requests.ts"
import { paceFor } from "./retry-pace.ts"
import { dial, type Socket, type SocketOptions } from "./socket.ts"

export interface LinkOptions {
  readonly url: string
  readonly token: string
  readonly sessionId: string
  readonly version: string
  /** The public address of the gateway, if it is known, for links that the session agent makes. */
  readonly gatewayUrl?: () => string | undefined
  /** Where the agent works. */
  readonly directory?: string
  /** Frames that not every runner knows: the session agent sends them to this one. */
  readonly accepts?: readonly string[]
  readonly epoch: string
  readonly outbox: Outbox
  readonly clock: Clock
  readonly log: Log
  readonly policy?: LinkPolicy
  readonly timing?: Pick<SocketOptions, "pingMs" | "pongMs"> & {
    /** A session agent that sends no `welcome` within this time does not acknowledge frames. */
    readonly welcomeMs?: number
  }
  /** The running and queued jobs, for the `hello` frame of every connection. */
  readonly active: () => Outbound<"hello">["active"]
  /** Receives commands. Results of requests are delivered to the promise that `request` returned. */
  readonly onFrame: (frame: CommandFrame) => void
  /** A connection accepts frames now: the current state can be sent. */
  readonly onConnected: () => void
  /** Called with every frame that is sent, in this order, before it is queued: for side effects such as metrics. */
  readonly taps?: readonly ((frame: OutboundFrame) => void)[]
  /** The link has ended and will not reconnect. */
  readonly onEnd: (code: 0 | 3, why: string) => void
}

export interface Link {
  readonly start: () => void
  readonly send: (frame: OutboundFrame) => void
  /** Sends a request to the session agent. It survives reconnects and always settles. */
  readonly request: PendingRequests["request"]
  /** Backpressure: undefined while the outbox has room, otherwise a promise that resolves when it has room again. */
  readonly room: () => Promise<void> | undefined
  readonly state: () => LinkState["name"]
  readonly counters: () => LinkCounters
  /** Resolves true when all frames are delivered, false when that takes longer than `ms` or the connection is down. */
  readonly flush: (ms: number) => Promise<boolean>
  /** Closes a socket that may be dead and reconnects, from now on with `token` if one is given. */
  readonly redial: (why: string, token?: string) => void
  /** Waits at most `flushMs` until all frames are delivered, then closes. */
  readonly stop: (flushMs: number) => Promise<void>
}

const WELCOME_MS = 2000
/** With more than this in the socket's buffer the network is the bottleneck: the rest stays in the outbox. */
const MAX_BUFFERED_BYTES = 1024 * 1024
const BUSY_POLL_MS = 5
/** While the socket's buffer is not empty, deltas of one part are collected this long into one frame. */
const HOLD_MS = 10
/** Attempts that fail for the same reason are logged this often. */
const LOG_EVERY_MS = 30_000

/** A session agent of the first protocol would take these words for words of the answer. */
const hasWordsOfSubAgent = (line: string): boolean =>
  /"type":"message\.part\.(?:text|reasoning)-delta"/.test(line) &&
  line.includes('"childSessionId":')

/**
 * What a connection may send. After `hello` nothing is sent until `welcome` reports which frames the session agent has,
 * or until it is clear that this session agent does not acknowledge frames.
 */
type Mode = "awaiting-welcome" | "acknowledged" | "unacknowledged"

interface Connection {
  readonly socket: Socket
  mode: Mode
}

export const createLink = (options: LinkOptions): Link => {
  const { outbox, clock, log, policy = linkPolicy(paceFor(options.url)), taps = [] } = options
  let state: LinkState | undefined
  let connection: Connection | undefined
  let { token } = options
  /** The last failure in the log. */
  let logged: { readonly why: string; readonly at: number } | undefined
  const timers = createTimers<"retry" | "hold" | "pump">(clock.after)
  /** The next commit: not scheduled, after a short hold, or at the end of this turn of the event loop. */
  let scheduled: "no" | "held" | "now" = "no"
  /** The part of the last delta. Only further deltas of that part may be held; the first one is sent at once. */
  let streaming: string | undefined
  const counters = createCounters(outbox.stats, clock.now)
  let waiters: (() => void)[] = []

  const apply = ([next, effects]: readonly [LinkState, readonly LinkEffect[]]) => {
    state = next
    for (const effect of effects) perform(effect)
  }
  const dispatch = (event: LinkEvent) => {
    if (state) apply(stepLink(state, event, policy, Math.random()))
  }
  const perform = (effect: LinkEffect): void => {
    switch (effect.do) {
      case "dial":
        return connect(effect.withinMs)
      case "wait":
        log[isNews(effect.why) ? "warn" : "debug"]("link.down", {
          why: effect.why,
          retryInMs: effect.ms,
        })
        return timers.arm("retry", effect.ms, () => dispatch({ type: "retry" }))
      case "close":
        timers.cancel("retry")
        connection?.socket.close(1000, "Runner shutting down")
        connection = undefined
        return
      case "end":
        log.warn("link.ended", { why: effect.why })
        options.onEnd(effect.code, effect.why)
        return
    }
  }

  /** True for the first of several equal failures, and then twice a minute. */
  const isNews = (why: string): boolean => {
    if (why === logged?.why && clock.now() - logged.at < LOG_EVERY_MS) return false
    logged = { why, at: clock.now() }
    return true
  }

  const connect = (dialMs: number) => {
    const isCurrent = () => connection === mine
    const ended = (event: LinkEvent) => {
      if (!isCurrent()) return
      connection = undefined
      dispatch(event)
    }
    const socket = dial({
      url: options.url,
      token,
      clock,
      dialMs,
      ...options.timing,
      events: {
        opened: () => {
          logged = undefined
          dispatch({ type: "opened", at: clock.now() })
          socket.send(JSON.stringify(hello()))
          clock.after(options.timing?.welcomeMs ?? WELCOME_MS, () => {
            if (isCurrent() && mine.mode === "awaiting-welcome") {
              log.info("link.unacknowledged", { why: "the session agent sent no welcome" })
              startSending(mine, "unacknowledged")
            }
          })
        },
        message: (text) => isCurrent() && receive(mine, text),
        closed: (code, reason) => ended({ type: "closed", code, reason, at: clock.now() }),
        refused: (status) => ended({ type: "refused", status, at: clock.now() }),
        failed: (error) => ended({ type: "failed", error, at: clock.now() }),
        unanswered: () => ended({ type: "unanswered", withinMs: dialMs, at: clock.now() }),
      },
    })
    const mine: Connection = { socket, mode: "awaiting-welcome" }
    connection = mine
  }

  const places = () => {
    const { directory } = options
    const gatewayUrl = options.gatewayUrl?.()
    return {
      ...(gatewayUrl !== undefined && { gatewayUrl }),
      ...(directory !== undefined && { directory }),
    }
  }
  const hello = (): Outbound<"hello"> => ({
    type: "hello",
    protocol: 2,
    runner: { name: "sandpiper", version: options.version, ...places() },
    sessionId: options.sessionId,
    epoch: options.epoch,
    nextSeq: outbox.headSeq(),
    active: options.active(),
    ...(options.accepts && { accepts: [...options.accepts] }),
  })

  const startSending = (mine: Connection, mode: Mode) => {
    mine.mode = mode
    const { frames } = outbox.stats()
    log.info("link.open", { mode, waiting: frames })
    counters.connected()
    if (mode === "acknowledged") pending.resend(outbox.contains)
    options.onConnected()
    commit()
  }

  const receive = (mine: Connection, text: string) => {
    counters.received(text.length)
    const parsed = parseInbound(text)
    if (!parsed.ok) return log.warn("link.frame-dropped", { problem: parsed.problem })
    const { frame } = parsed
    if (frame.type === "pong") return
    if (frame.type === "ack") {
      outbox.acknowledge(frame.seq)
      counters.acknowledged(frame.seq)
      return wakeWaiters()
    }
    if (isResult(frame)) {
      if (!pending.settle(frame)) {
        counters.unexpectedResult()
        log.warn("link.unexpected-result", { type: frame.type, requestId: frame.requestId })
      }
      return
    }
    if (frame.type !== "welcome") return options.onFrame(frame)
    if (mine.mode !== "awaiting-welcome")
      return log.warn("link.frame-dropped", { problem: "a second welcome" })
    dispatch({ type: "welcomed" })
    outbox.resume(frame.lastSeq)
    startSending(mine, "acknowledged")
  }

  const commit = () => {
    scheduled = "no"
    timers.cancel("hold")
    outbox.commit()
    pump()
  }

  const pump = () => {
    if (!connection || connection.mode === "awaiting-welcome") return wakeWaiters()
    const { socket, mode } = connection
    // Frames that are left when the socket closes are sent on the next connection.
    while (socket.isOpen()) {
      if (socket.buffered() > MAX_BUFFERED_BYTES) {
        if (!timers.isArmed("pump")) timers.arm("pump", BUSY_POLL_MS, pump)
        break
      }
      const next = outbox.next()
      if (!next) break
      if (mode === "unacknowledged" && hasWordsOfSubAgent(next.line)) continue
      const text =
        mode === "acknowledged" ? `${next.line.slice(0, -1)},"seq":${next.seq}}` : next.line
      socket.send(text)
      counters.sent(next.seq, text.length)
    }
    if (mode === "unacknowledged") outbox.discardSent()
    wakeWaiters()
  }

  /** Wakes the callers that wait for room in the outbox or for the delivery of all frames. */
  const wakeWaiters = () => {
    if (waiters.length === 0) return
    const woken = waiters
    waiters = []
    for (const wake of woken) wake()
  }

  const send = (frame: OutboundFrame) => {
    for (const tap of taps) tap(frame)
    outbox.append(frame)
    const part = partOf(frame)
    const mayHold = part !== undefined && part === streaming && isBusy()
    streaming = part
    if (scheduled === "now") return
    if (!mayHold) {
      scheduled = "now"
      // All frames of one turn of the event loop are one write to the disk.
      queueMicrotask(commit)
    } else if (scheduled === "no") {
      scheduled = "held"
      timers.arm("hold", HOLD_MS, commit)
    }
  }

  const isBusy = () => connection !== undefined && connection.socket.buffered() > 0

  const pending = createPendingRequests({
    send,
    isOnline: () => connection !== undefined && connection.mode !== "awaiting-welcome",
    clock,
    newId: () => crypto.randomUUID(),
  })

  const nextChange = () => new Promise<void>((resolve) => waiters.push(resolve))

  const flush = async (ms: number): Promise<boolean> => {
    const expired = new Promise<"expired">((resolve) => {
      clock.after(ms, () => resolve("expired"))
    })
    while (connection && !outbox.isEmpty()) {
      if ((await Promise.race([nextChange(), expired])) === "expired") break
    }
    return outbox.isEmpty()
  }

  return {
    start: () => apply(firstDial(policy)),
    send,
    request: pending.request,
    room: () => {
      if (!outbox.isFull()) return undefined
      log.warn("link.backlog-full", { ...outbox.stats() })
      return (async () => {
        while (outbox.isFull() && !(state && isFinal(state))) await nextChange()
      })()
    },
    state: () => state?.name ?? "stopped",
    counters: counters.read,
    flush,
    redial: (why, fresh = token) => {
      token = fresh
      if (state?.name === "waiting") {
        timers.cancel("retry")
        return dispatch({ type: "redial" })
      }
      const dead = connection
      if (dead === undefined) return
      connection = undefined
      dead.socket.close(1000, why)
      dispatch({ type: "failed", error: why, at: clock.now() })
    },
    stop: async (flushMs) => {
      pending.failAll("the runner is shutting down")
      await flush(flushMs)
      commit()
      if (state && !isFinal(state)) dispatch({ type: "stop" })
      wakeWaiters()
    },
  }
}

/** The part that a delta frame extends; undefined for any other frame. */
const partOf = (frame: OutboundFrame): string | undefined =>
  isDelta(frame) ? `${frame.turnId} ${frame.partId ?? ""}` : undefined

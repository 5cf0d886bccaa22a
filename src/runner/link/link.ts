/** The link to the session agent: frames in order and exactly once, over as many sockets as that takes. */
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import {
  type CommandFrame,
  isResult,
  type Outbound,
  type OutboundFrame,
  parseInbound,
} from "../../wire/frames/index.ts"
import { createCounters, type LinkCounters } from "./counters.ts"
import {
  defaultLinkPolicy,
  firstDial,
  isFinal,
  type LinkEffect,
  type LinkEvent,
  type LinkPolicy,
  type LinkState,
  stepLink,
} from "./link-state.ts"
import type { Outbox } from "./outbox.ts"
import { createPending, type Pending } from "./pending-requests.ts"
import { dial, type Socket, type SocketOptions } from "./socket.ts"

export interface LinkOptions {
  readonly url: string
  readonly token: string
  readonly sessionId: string
  readonly version: string
  readonly epoch: string
  readonly outbox: Outbox
  readonly clock: Clock
  readonly log: Log
  readonly policy?: LinkPolicy
  readonly timing?: Pick<SocketOptions, "pingMs" | "pongMs" | "dialMs"> & {
    /** A session agent that says no `welcome` in this time keeps no count of frames. */
    readonly welcomeMs?: number
  }
  /** What runs now: said at the start of every connection. */
  readonly active: () => Outbound<"hello">["active"]
  /** What the session agent says; answers to requests find their asker by themselves. */
  readonly onFrame: (frame: CommandFrame) => void
  /** A connection is ready: whatever is true now may be said. */
  readonly onConnected: () => void
  /** Called with every frame that is sent, in this order, before it is queued: for side effects such as metrics. */
  readonly taps?: readonly ((frame: OutboundFrame) => void)[]
  /** The link is over for good. */
  readonly onEnd: (code: 0 | 3, why: string) => void
}

export interface Link {
  readonly start: () => void
  readonly send: (frame: OutboundFrame) => void
  /** Asks the session agent; survives a reconnect, and always settles. */
  readonly request: Pending["request"]
  /** Resolves when there is room for more frames. */
  readonly room: () => Promise<void> | undefined
  readonly state: () => LinkState["name"]
  readonly counters: () => LinkCounters
  /** Resolves true when the session agent has everything, false when that takes longer than `ms`. */
  readonly flush: (ms: number) => Promise<boolean>
  /** For a socket that may be dead without knowing: drops it and dials anew, from now on with `token` if one is given. */
  readonly redial: (why: string, token?: string) => void
  /** Waits until the session agent has everything, at most `flushMs`, and closes. */
  readonly stop: (flushMs: number) => Promise<void>
}

const WELCOME_MS = 2000
/** Beyond this the network is the bottleneck: more would only sit in memory, uncounted. */
const MAX_BUFFERED_BYTES = 1024 * 1024
const BUSY_POLL_MS = 5
/** While the network is busy, words of one part may wait this long to go out together. */
const HOLD_MS = 10

/** On a fresh socket nothing may be sent before the session agent has said, or not said, what it has. */
type Mode = "greeting" | "counted" | "uncounted"

interface Connection {
  readonly socket: Socket
  mode: Mode
}

export const createLink = (options: LinkOptions): Link => {
  const { outbox, clock, log, policy = defaultLinkPolicy, taps = [] } = options
  let state: LinkState | undefined
  let connection: Connection | undefined
  let { token } = options
  let cancelWait = () => {}
  /** When what was taken is stored and sent: at the end of this turn of the loop, or after a short hold. */
  let scheduled: "no" | "held" | "now" = "no"
  let cancelHold = () => {}
  /** The part whose words went out last: more of the same may be held back for a moment, a first word never. */
  let streaming: string | undefined
  const counters = createCounters(outbox.stats, clock.now)
  let pumpScheduled = false
  let waiters: (() => void)[] = []

  const apply = ([next, effects]: readonly [LinkState, readonly LinkEffect[]]) => {
    state = next
    for (const effect of effects) perform(effect)
  }
  const happened = (event: LinkEvent) => {
    if (state) apply(stepLink(state, event, policy, Math.random()))
  }
  const perform = (effect: LinkEffect): void => {
    switch (effect.do) {
      case "dial":
        return connect()
      case "wait":
        log.warn("link.down", { why: effect.why, retryInMs: effect.ms })
        cancelWait = clock.after(effect.ms, () => happened({ type: "retry" }))
        return
      case "drop":
        cancelWait()
        connection?.socket.close(1000, "Runner shutting down")
        connection = undefined
        return
      case "end":
        log.warn("link.ended", { why: effect.why })
        options.onEnd(effect.code, effect.why)
        return
    }
  }

  const connect = () => {
    const current = () => connection === mine
    const gone = (event: LinkEvent) => {
      if (!current()) return
      connection = undefined
      happened(event)
    }
    const socket = dial({
      url: options.url,
      token,
      clock,
      ...options.timing,
      events: {
        opened: () => {
          happened({ type: "opened", at: clock.now() })
          socket.send(JSON.stringify(hello()))
          clock.after(options.timing?.welcomeMs ?? WELCOME_MS, () => {
            if (current() && mine.mode === "greeting") {
              log.info("link.uncounted", { why: "the session agent said no welcome" })
              ready(mine, "uncounted")
            }
          })
        },
        message: (text) => current() && receive(mine, text),
        closed: (code, reason) => gone({ type: "closed", code, reason, at: clock.now() }),
        refused: (status) => gone({ type: "refused", status }),
        failed: (error) => gone({ type: "failed", error, at: clock.now() }),
      },
    })
    const mine: Connection = { socket, mode: "greeting" }
    connection = mine
  }

  const hello = (): Outbound<"hello"> => ({
    type: "hello",
    protocol: 2,
    runner: { name: "sandpiper", version: options.version },
    sessionId: options.sessionId,
    epoch: options.epoch,
    nextSeq: outbox.headSeq(),
    active: options.active(),
  })

  const ready = (mine: Connection, mode: Mode) => {
    mine.mode = mode
    const { frames } = outbox.stats()
    log.info("link.open", { mode, waiting: frames })
    counters.connected()
    if (mode === "counted") pending.repeat(outbox.holds)
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
      return settle()
    }
    if (isResult(frame)) {
      if (!pending.settle(frame)) {
        counters.unasked()
        log.warn("link.unasked-answer", { type: frame.type, requestId: frame.requestId })
      }
      return
    }
    if (frame.type !== "welcome") return options.onFrame(frame)
    if (mine.mode !== "greeting")
      return log.warn("link.frame-dropped", { problem: "a second welcome" })
    outbox.resume(frame.lastSeq)
    ready(mine, "counted")
  }

  const commit = () => {
    scheduled = "no"
    cancelHold()
    outbox.commit()
    pump()
  }

  const pump = () => {
    pumpScheduled = false
    if (!connection || connection.mode === "greeting") return settle()
    const { socket, mode } = connection
    // What is left when it closes is for the next connection.
    while (socket.isOpen()) {
      if (socket.buffered() > MAX_BUFFERED_BYTES) {
        if (!pumpScheduled) clock.after(BUSY_POLL_MS, pump)
        pumpScheduled = true
        break
      }
      const next = outbox.next()
      if (!next) break
      const text = mode === "counted" ? `${next.line.slice(0, -1)},"seq":${next.seq}}` : next.line
      socket.send(text)
      counters.sent(next.seq, text.length)
    }
    if (mode === "uncounted") outbox.letGoOfSent()
    settle()
  }

  /** Lets those go on who waited for room, or for everything to be delivered. */
  const settle = () => {
    if (waiters.length === 0) return
    const woken = waiters
    waiters = []
    for (const wake of woken) wake()
  }

  const send = (frame: OutboundFrame) => {
    for (const tap of taps) tap(frame)
    outbox.append(frame)
    const part = partOf(frame)
    const mayWait = part !== undefined && part === streaming && isBusy()
    streaming = part
    if (scheduled === "now") return
    if (!mayWait) {
      scheduled = "now"
      // A burst of frames within one turn of the loop is one write to the disk.
      queueMicrotask(commit)
    } else if (scheduled === "no") {
      scheduled = "held"
      cancelHold = clock.after(HOLD_MS, commit)
    }
  }

  const isBusy = () => connection !== undefined && connection.socket.buffered() > 0

  const pending = createPending({
    send,
    isOnline: () => connection !== undefined && connection.mode !== "greeting",
    clock,
    newId: () => crypto.randomUUID(),
  })

  const changed = () => new Promise<void>((resolve) => waiters.push(resolve))

  const flush = async (ms: number): Promise<boolean> => {
    const expired = new Promise<"expired">((resolve) => {
      clock.after(ms, () => resolve("expired"))
    })
    while (connection && !outbox.isEmpty()) {
      if ((await Promise.race([changed(), expired])) === "expired") break
    }
    return outbox.isEmpty()
  }

  return {
    start: () => apply(firstDial),
    send,
    request: pending.request,
    room: () => {
      if (!outbox.isFull()) return undefined
      log.warn("link.backlog-full", { ...outbox.stats() })
      return (async () => {
        while (outbox.isFull() && !(state && isFinal(state))) await changed()
      })()
    },
    state: () => state?.name ?? "stopped",
    counters: counters.read,
    flush,
    redial: (why, fresh = token) => {
      token = fresh
      if (state?.name === "waiting") {
        cancelWait()
        return happened({ type: "retry" })
      }
      const dead = connection
      if (dead === undefined) return
      connection = undefined
      dead.socket.close(1000, why)
      happened({ type: "failed", error: why, at: clock.now() })
    },
    stop: async (flushMs) => {
      pending.failAll("the runner is shutting down")
      await flush(flushMs)
      commit()
      if (state && !isFinal(state)) happened({ type: "stop" })
      settle()
    },
  }
}

/** Which stretch of words a frame adds to, if it is one that does. */
const partOf = (frame: OutboundFrame): string | undefined =>
  frame.type === "message.part.text-delta" || frame.type === "message.part.reasoning-delta"
    ? `${frame.turnId} ${frame.partId ?? ""}`
    : undefined

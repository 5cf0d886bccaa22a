/**
 * The runner's side of a session: one connection counts, each frame is taken once and acknowledged after it is written,
 * and work is handed out only when everything from before is known.
 */
import { channelKey } from "../../wire/channel.ts"
import { closeReasons } from "../../wire/close-reasons.ts"
import {
  isRequest,
  type Outbound,
  type OutboundFrame,
  parseOutbound,
} from "../../wire/frames/index.ts"
import { createAcks } from "./acks.ts"
import { createIngest } from "./ingest.ts"
import { staysReady } from "./link.ts"
import type { SessionContext } from "./session-context.ts"
import { dispatch, reconcile } from "./prompt-lifecycle.ts"
import { createRpc } from "./runner-requests.ts"

export interface RunnerSide {
  readonly opened: (connection: string) => void
  readonly said: (connection: string, text: string) => void
  readonly closed: (connection: string) => void
  /** Writes the words that wait. */
  readonly flush: () => void
}

/** Words wait at most this long, and at most this many bytes of them, before they are written. */
const BATCH_MS = 250
/** What waits is not acknowledged: the runner keeps it in its outbox, which is bounded by bytes, and may send it again. */
const BATCH_BYTES = 2048
/** Many sessions may write in one thread, each for a while: they are not to do it all at the same moment. */
const BATCH_SPREAD_MS = 50
/** A runner that knows no `aborted` with a channel is taken at its word after this. */
const BARRIER_MS = 10_000

export const createRunnerSide = (parts: SessionContext): RunnerSide => {
  const { ports, link, words, commit, say, deadlines, state } = parts
  const ingest = createIngest(parts)
  const rpc = createRpc(parts)
  const acks = createAcks(parts)
  /** The highest number taken of the stream, written or waiting to be; read from the rows when it is not known. */
  let taken: number | undefined
  /** The frame that could not be written: the next time, what waits before it is written by itself. */
  let poison: number | undefined
  let cancelBatch: (() => void) | undefined

  const takenSeq = (epoch: string): number => (taken ??= link.storedSeq(epoch))

  /** Everything taken so far is part of this transaction. */
  const keepPlace = () => {
    const { epoch } = link.now()
    if (epoch !== null && taken !== undefined) link.setStoredSeq(epoch, taken)
  }

  const stopBatch = () => {
    cancelBatch?.()
    cancelBatch = undefined
  }
  const flush = () => {
    stopBatch()
    if (words.waiting() === 0) return
    commit(keepPlace)
    acks.soon()
  }

  /** The stream is not what it should be: a new connection starts where the rows end. */
  const startOver = (connection: string, why: string) => {
    ports.report("hub.stream-restarted", { why })
    stopBatch()
    words.forget()
    taken = undefined
    commit(() => link.change({ connection: null, phase: "away" }))
    ports.sockets.close(connection, 4000, "Resend from what is stored")
  }

  const write = (connection: string, work: () => void) => {
    stopBatch()
    try {
      commit(() => {
        work()
        keepPlace()
        dispatch(parts)
      })
    } catch (error) {
      ports.report("hub.frame-failed", { error: String(error) })
      if (taken !== poison) {
        poison = taken
        return startOver(connection, "a frame could not be written")
      }
      // The same frame fails again, alone: without it the session goes on, with it nothing ever would.
      commit(keepPlace)
    }
    acks.soon()
  }

  const hello = (frame: Outbound<"hello">) => {
    const before = link.now()
    const stored = link.storedSeq(frame.epoch)
    // Numbers below the oldest frame it still holds will never come, even if they are missing here.
    taken = Math.max(stored, frame.nextSeq - 1)
    const barrier = ports.newId()
    words.forget()
    commit(() => {
      link.change({
        phase: "reconciling",
        epoch: frame.epoch,
        barrier,
        active: frame.active.map(({ messageId }) => messageId),
        ready: staysReady(before, frame),
      })
      state.show("runner", { connected: true, ...frame.runner })
      deadlines.set("barrier", "", ports.now() + BARRIER_MS)
      say({ type: "welcome", protocol: 2, lastSeq: stored, sessions: agentSessions(parts) })
      configure()
      // Answered in its place in the stream: when it is, nothing from before is still on its way.
      say({ type: "abort", channelType: "hub", channelId: barrier })
    })
  }

  const configure = () => {
    say({ type: "init" })
    say({ type: "opencode-config", config: JSON.parse(state.kept("config") ?? "{}") as object })
  }

  const take = (connection: string, frame: Exclude<OutboundFrame, { type: "hello" | "ping" }>) => {
    if (frame.type === "message.part.text-delta" || frame.type === "message.part.reasoning-delta") {
      const kind = frame.type === "message.part.text-delta" ? "text" : "reasoning"
      const { turnId, partId, delta } = frame
      if (words.take(turnId, partId, kind, delta)) {
        if (words.waiting() >= BATCH_BYTES) return flush()
        cancelBatch ??= ports.later(BATCH_MS - BATCH_SPREAD_MS * ports.chance(), flush)
        return
      }
      return write(connection, () => {
        parts.messages.begin(turnId, frame.messageId, channelKey(frame))
        words.writeNow(turnId, partId, kind, delta)
      })
    }
    if (isRequest(frame)) {
      write(connection, () => {})
      return rpc.ask(frame)
    }
    write(connection, () => ingest(frame))
  }

  return {
    opened: (connection) => {
      const { connection: before } = link.now()
      flush()
      taken = undefined
      commit(() => link.change({ connection, phase: "greeting" }))
      if (before !== null && before !== connection)
        ports.sockets.close(before, 1000, closeReasons.replaced)
    },
    said: (connection, text) => {
      if (link.now().connection !== connection) return
      const parsed = parseOutbound(text)
      if (!parsed.ok) {
        ports.report("hub.frame-dropped", { problem: parsed.problem, type: parsed.type })
        rpc.refuse(parsed)
        return skip(connection, text)
      }
      const { frame } = parsed
      if (frame.type === "ping") return ports.sockets.send(connection, '{"type":"pong"}')
      if (frame.type === "hello") return hello(frame)
      if (link.now().phase === "greeting") uncounted()
      const { epoch, phase } = link.now()
      if (phase !== "uncounted" && epoch !== null) {
        const { seq } = frame
        if (seq === undefined) return ports.report("hub.frame-dropped", { problem: "no seq" })
        if (seq <= takenSeq(epoch)) return acks.soon()
        if (seq !== takenSeq(epoch) + 1) return startOver(connection, "frames are missing")
        if (seq === poison) flush()
        taken = seq
      }
      take(connection, frame)
    },
    closed: (connection) => {
      if (link.now().connection !== connection) return
      stopBatch()
      acks.stop()
      commit(() => {
        keepPlace()
        link.change({ connection: null, phase: "away" })
        state.show("runner", { connected: false })
        state.show("agent", { status: "away" })
      })
    },
    flush,
  }

  /** A runner that starts without a `hello` keeps no count: it is configured and taken at its word. */
  function uncounted() {
    commit(() => {
      link.change({ phase: "uncounted", epoch: null, active: [], ready: false })
      state.show("runner", { connected: true })
      configure()
      reconcileUncounted()
    })
  }

  function reconcileUncounted() {
    reconcile(parts)
    link.change({ phase: "uncounted" })
  }

  /** A frame that makes no sense still has its place in the stream. */
  function skip(connection: string, text: string) {
    const { epoch } = link.now()
    const seq = /"seq":(\d+)\}\s*$/.exec(text)?.[1]
    if (epoch === null || seq === undefined || Number(seq) !== takenSeq(epoch) + 1) return
    taken = Number(seq)
    write(connection, () => {})
  }
}

const agentSessions = ({ ports }: SessionContext): Record<string, string> =>
  Object.fromEntries(
    ports.sql
      .all<{ key: string; agent_session: string }>("SELECT key, agent_session FROM channels")
      .map(({ key, agent_session }) => [key, agent_session]),
  )

/**
 * The runner's side of a session. One connection counts; every frame is processed once and acknowledged after it is
 * written; prompts are dispatched only when every frame from before the connection is known.
 */
import { isStorageFull } from "../../lib/storage-full.ts"
import { channelKey } from "../../wire/channel.ts"
import { closeReasons } from "../../wire/close-reasons.ts"
import {
  isRequest,
  type Outbound,
  type OutboundFrame,
  parseOutbound,
} from "../../wire/frames/index.ts"
import { createAcks } from "./acks.ts"
import { createRunnerGit, type RunnerGit } from "./git-credentials.ts"
import { createIngest } from "./ingest.ts"
import { readGeneration } from "./named-values.ts"
import { staysReady } from "./runner-connection.ts"
import type { SessionContext } from "./session-context.ts"
import { dispatch, reconcile } from "./prompt-lifecycle.ts"
import { createRunnerRequests, type RunnerRequests } from "./runner-requests.ts"

export interface RunnerSide {
  readonly opened: (connection: string) => void
  readonly receive: (connection: string, text: string) => void
  readonly closed: (connection: string) => void
  /** The requests without a result: a host reads no more frames while there are too many. */
  readonly requests: Pick<RunnerRequests, "open" | "room">
  /** Writes the buffered deltas. */
  readonly flush: () => void
  readonly git: Pick<RunnerGit, "send" | "isAccepted">
}

/** Deltas are buffered for at most this long. */
const BATCH_MS = 250
/** And at most this many bytes: the runner holds them in its outbox, which is bounded, until they are acknowledged. */
const BATCH_BYTES = 2048
/** Jitter, so that the sessions of one thread do not all write at the same moment. */
const BATCH_SPREAD_MS = 50
/** A runner that does not answer the barrier (an older one) counts as reconciled after this. */
const BARRIER_MS = 10_000

export const createRunnerSide = (context: SessionContext): RunnerSide => {
  const { ports, runnerConnection, deltas, commit, sendToRunner, deadlines, values } = context
  const ingest = createIngest(context)
  const requests = createRunnerRequests(context)
  const acks = createAcks(context)
  const git = createRunnerGit(context)
  /** The highest `seq` received, written or buffered; `undefined` until it is read from the rows. */
  let lastSeq: number | undefined
  /** The `seq` of a frame whose write failed: when it comes again, the deltas before it are written separately. */
  let failedSeq: number | undefined
  let cancelBatch: (() => void) | undefined

  const receivedSeq = (epoch: string): number => (lastSeq ??= runnerConnection.storedSeq(epoch))

  /** Stores the position in the stream. Inside the transaction that writes the frames up to it. */
  const storePosition = () => {
    const { epoch } = runnerConnection.state()
    if (epoch !== null && lastSeq !== undefined) runnerConnection.setStoredSeq(epoch, lastSeq)
  }

  const stopBatch = () => {
    cancelBatch?.()
    cancelBatch = undefined
  }
  const flush = () => {
    stopBatch()
    if (deltas.unwrittenBytes() === 0) return
    commit(storePosition)
    acks.schedule()
  }

  /** Closes the connection: the runner reconnects and sends everything again that is not stored. */
  const restartStream = (connection: string, why: string) => {
    ports.report("hub.stream-restarted", { why })
    stopBatch()
    deltas.discard()
    lastSeq = undefined
    try {
      commit(() => runnerConnection.update({ connection: null, phase: "away" }))
    } finally {
      ports.sockets.close(connection, 4000, "Resend from what is stored")
    }
  }

  const write = (connection: string, work: () => void) => {
    stopBatch()
    try {
      commit(() => {
        work()
        storePosition()
        dispatch(context)
      })
    } catch (error) {
      ports.report("hub.frame-failed", { error: String(error) })
      // On a full disk no frame can be written: none is skipped, the runner keeps them all.
      if (lastSeq !== failedSeq || isStorageFull(error)) {
        failedSeq = lastSeq
        return restartStream(connection, "a frame could not be written")
      }
      // The same frame failed twice, the second time alone: skip it, or the session would never continue.
      commit(storePosition)
    }
    acks.schedule()
  }

  const hello = (frame: Outbound<"hello">) => {
    const before = runnerConnection.state()
    const stored = runnerConnection.storedSeq(frame.epoch)
    // The runner does not hold frames below `nextSeq` any more: do not wait for them.
    lastSeq = Math.max(stored, frame.nextSeq - 1)
    const barrier = ports.newId()
    deltas.discard()
    commit(() => {
      runnerConnection.update({
        phase: "reconciling",
        epoch: frame.epoch,
        barrier,
        active: frame.active.map(({ messageId }) => messageId),
        ready: staysReady(before, frame),
      })
      const generation = readGeneration(values)
      values.setPublic("runner", {
        connected: true,
        ...frame.runner,
        // Another number is another sandbox, at another address.
        ...(generation > 0 && { generation }),
      })
      deadlines.set("barrier", "", ports.now() + BARRIER_MS)
      sendToRunner({ type: "welcome", protocol: 2, lastSeq: stored })
      configure()
      git.greeted(frame)
      // The barrier: the runner answers it in its stream, after every frame from before the connection.
      sendToRunner({ type: "abort", channelType: "hub", channelId: barrier })
    })
  }

  const configure = () => {
    sendToRunner({ type: "init" })
    sendToRunner({ type: "opencode-config", config: values.config() })
  }

  /** A runner whose first frame is not `hello` does not number its frames and has no barrier. */
  const startUncounted = () =>
    commit(() => {
      runnerConnection.update({ phase: "uncounted", epoch: null, active: [], ready: false })
      values.setPublic("runner", { connected: true })
      configure()
      reconcile(context)
      runnerConnection.update({ phase: "uncounted" })
    })

  /** A malformed frame is dropped, but its `seq` counts. */
  const skip = (connection: string, text: string) => {
    const { epoch } = runnerConnection.state()
    const seq = /"seq":(\d+)\}\s*$/.exec(text)?.[1]
    if (epoch === null || seq === undefined || Number(seq) !== receivedSeq(epoch) + 1) return
    lastSeq = Number(seq)
    write(connection, () => {})
  }

  const handleFrame = (
    connection: string,
    frame: Exclude<OutboundFrame, { type: "hello" | "ping" }>,
  ) => {
    if (frame.type === "message.part.text-delta" || frame.type === "message.part.reasoning-delta") {
      const kind = frame.type === "message.part.text-delta" ? "text" : "reasoning"
      const { turnId, partId, delta, childSessionId } = frame
      if (deltas.add(turnId, partId, kind, delta)) {
        if (deltas.unwrittenBytes() >= BATCH_BYTES) return flush()
        cancelBatch ??= ports.later(BATCH_MS - BATCH_SPREAD_MS * ports.random(), flush)
        return
      }
      return write(connection, () => {
        context.messages.begin(turnId, frame.messageId, channelKey(frame))
        const data = childSessionId === undefined ? undefined : { childSessionId }
        deltas.writeNow(turnId, partId, kind, delta, data)
      })
    }
    if (isRequest(frame)) {
      write(connection, () => {})
      return requests.handle(frame)
    }
    write(connection, () => ingest(frame))
  }

  return {
    opened: (connection) => {
      const { connection: before } = runnerConnection.state()
      flush()
      lastSeq = undefined
      git.opened()
      commit(() => runnerConnection.update({ connection, phase: "greeting" }))
      if (before !== null && before !== connection)
        ports.sockets.close(before, 1000, closeReasons.replaced)
    },
    receive: (connection, text) => {
      if (runnerConnection.state().connection !== connection) return
      const parsed = parseOutbound(text)
      if (!parsed.ok) {
        ports.report("hub.frame-dropped", { problem: parsed.problem, type: parsed.type })
        requests.rejectMalformed(parsed)
        return skip(connection, text)
      }
      const { frame } = parsed
      if (frame.type === "ping") return ports.sockets.send(connection, '{"type":"pong"}')
      if (frame.type === "hello") return hello(frame)
      if (runnerConnection.state().phase === "greeting") startUncounted()
      const { epoch, phase } = runnerConnection.state()
      if (phase !== "uncounted" && epoch !== null) {
        const { seq } = frame
        if (seq === undefined) return ports.report("hub.frame-dropped", { problem: "no seq" })
        if (seq <= receivedSeq(epoch)) return acks.schedule()
        if (seq !== receivedSeq(epoch) + 1) return restartStream(connection, "frames are missing")
        if (seq === failedSeq) flush()
        lastSeq = seq
      }
      handleFrame(connection, frame)
    },
    closed: (connection) => {
      if (runnerConnection.state().connection !== connection) return
      git.opened()
      stopBatch()
      acks.cancel()
      commit(() => {
        storePosition()
        runnerConnection.update({ connection: null, phase: "away" })
        values.setPublic("runner", { connected: false })
        values.setPublic("agent", { status: "away" })
      })
    },
    requests,
    flush,
    git,
  }
}

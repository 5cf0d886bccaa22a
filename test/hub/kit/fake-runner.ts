/**
 * A runner without an agent: the real link with its outbox on disk, and answers that a test writes. Its turns are stored
 * with its frames, so a new runner on the same directory continues them.
 */
import type { Database } from "bun:sqlite"
import { systemClock } from "../../../src/lib/clock.ts"
import { openStateDb, readFact, writeFact } from "../../../src/lib/state-db.ts"
import type { CommandFrame, Inbound, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { openOutboxStore, readEpoch } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox } from "../../../src/runner/link/outbox.ts"
import { createLink, type Link } from "../../../src/runner/link/link.ts"
import { loopbackPace } from "../../../src/runner/link/retry-pace.ts"
import { silentLog } from "../../kit/log.ts"

interface Turn {
  readonly messageId: string
  readonly turnId: string
  readonly channelType: string
  readonly channelId: string
  /** How many pieces of the answer are sent. */
  made: number
}

export interface FakeRunner {
  readonly uplink: Link
  readonly frames: readonly CommandFrame[]
  readonly prompts: readonly Inbound<"prompt">[]
  readonly endings: readonly string[]
  readonly send: (frame: OutboundFrame) => void
  /** Sends the next pieces of every turn; ends the turns that have none left. */
  readonly work: (pieces: number) => void
  readonly busy: () => number
  /** Like SIGKILL: nothing more is sent or stored, not even frames that were just accepted. */
  readonly kill: () => void
  readonly stop: () => Promise<void>
}

export interface FakeRunnerOptions {
  readonly url: string
  readonly token: string
  readonly stateDir: string
  /** The answer to a prompt, in pieces. Without it, the test sends frames itself. */
  readonly answer?: (prompt: Inbound<"prompt">) => readonly string[]
  /** Answers every prompt, or those for which it is true, at once, without `work`. */
  readonly eager?: boolean | ((prompt: Inbound<"prompt">) => boolean)
  /** Loses its turns when it restarts, like a runner whose agent died too. */
  readonly forgetful?: boolean
  /** The public address of its gateway. */
  readonly gatewayUrl?: string
  /** Frames that it knows beyond those of every runner; none if it is not given. */
  readonly accepts?: readonly string[]
}

export const startFakeRunner = (options: FakeRunnerOptions): FakeRunner => {
  const db: Database = openStateDb(options.stateDir)
  const known = options.forgetful ? undefined : readFact(db, "turns")
  const turns: Turn[] = known === undefined ? [] : JSON.parse(known)
  const asked = new Map<string, Inbound<"prompt">>(JSON.parse(readFact(db, "asked") ?? "[]"))
  const frames: CommandFrame[] = []
  const prompts: Inbound<"prompt">[] = []
  const endings: string[] = []
  let dead = false

  const store = openOutboxStore(db, {
    write: () => {
      writeFact(db, "turns", JSON.stringify(turns))
      writeFact(db, "asked", JSON.stringify([...asked]))
    },
    done: () => {},
  })
  const outbox = createOutbox({
    store,
    maxBytes: 64 * 1024 * 1024,
    onStoreFailure: (error) => {
      throw error
    },
  })
  const uplink = createLink({
    url: options.url,
    token: options.token,
    sessionId: "s1",
    version: "test",
    gatewayUrl: () => options.gatewayUrl,
    ...(options.accepts && { accepts: options.accepts }),
    epoch: readEpoch(db, () => crypto.randomUUID()),
    outbox: {
      ...outbox,
      commit: () => (dead ? undefined : outbox.commit()),
      next: () => (dead ? undefined : outbox.next()),
    },
    clock: systemClock,
    log: silentLog,
    policy: {
      pace: { ...loopbackPace, backoff: { min: 5, max: 20 }, quickMaxMs: 20 },
      stableMs: 1000,
      maxRefusals: 1000,
    },
    active: () =>
      turns.map(({ messageId, turnId, channelType, channelId }) => ({
        messageId,
        turnId,
        channelKey: `${channelType}:${channelId}`,
      })),
    onFrame: (frame) => {
      if (!dead) take(frame)
    },
    onConnected: () => {
      if (turns.length === 0) send({ type: "agentStatus", status: "idle" })
    },
    onEnd: (_code, why) => void endings.push(why),
  })
  const send = (frame: OutboundFrame) => {
    if (!dead) uplink.send(frame)
  }

  const take = (frame: CommandFrame): void => {
    frames.push(frame)
    if (frame.type === "abort") {
      const scoped = frame.channelType !== undefined
      for (const turn of turns.slice()) {
        if (
          !scoped ||
          (turn.channelType === frame.channelType && turn.channelId === frame.channelId)
        ) {
          end(turn, "canceled")
        }
      }
      return send({ type: "aborted", channelType: frame.channelType, channelId: frame.channelId })
    }
    if (frame.type === "opencode-config") {
      return send({ type: "opencode-config-applied", success: true, restarted: false })
    }
    if (frame.type !== "prompt") return
    prompts.push(frame)
    if (asked.has(frame.messageId)) return
    asked.set(frame.messageId, frame)
    const { messageId, channelType = "web", channelId = "default" } = frame
    const turn = { messageId, turnId: crypto.randomUUID(), channelType, channelId, made: 0 }
    turns.push(turn)
    send({ type: "agentStatus", status: "thinking", ...addressOf(turn) })
    if (options.answer) send({ type: "message.create", turnId: turn.turnId, ...addressOf(turn) })
    const { eager = false } = options
    if (eager === true || (eager !== false && eager(frame))) work(Number.POSITIVE_INFINITY)
  }

  const piecesOf = (turn: Turn) => {
    const prompt = asked.get(turn.messageId)
    return prompt && options.answer ? options.answer(prompt) : undefined
  }

  const work = (count: number) => {
    for (const turn of turns.slice()) {
      const pieces = piecesOf(turn)
      if (!pieces) continue
      for (const delta of pieces.slice(turn.made, Math.min(pieces.length, turn.made + count))) {
        turn.made += 1
        send({
          type: "message.part.text-delta",
          turnId: turn.turnId,
          partId: "p1",
          delta,
          ...addressOf(turn),
        })
      }
      if (turn.made >= pieces.length) end(turn, "end_turn")
    }
  }

  const end = (turn: Turn, reason: "end_turn" | "canceled") => {
    turns.splice(turns.indexOf(turn), 1)
    // Without `finalText`, which would repair lost deltas.
    send({ type: "message.finalize", turnId: turn.turnId, reason, ...addressOf(turn) })
    send({ type: "complete", ...addressOf(turn) })
    send({ type: "agentStatus", status: "idle", ...addressOf(turn) })
  }

  uplink.start()
  return {
    uplink,
    frames,
    prompts,
    endings,
    send,
    work,
    busy: () => turns.length,
    kill: () => {
      dead = true
      void uplink.stop(0).then(() => db.close())
    },
    stop: async () => {
      await uplink.stop(2000)
      dead = true
      db.close()
    },
  }
}

const addressOf = ({ messageId, channelType, channelId }: Turn) => ({
  messageId,
  channelType,
  channelId,
})

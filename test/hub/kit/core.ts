/** A session without a host: rows in memory, sockets that record what they are sent, a manual clock. */
import { digestOf } from "../../../src/lib/digest.ts"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Ports, Sql } from "../../../src/hub/session/ports.ts"
import { createSession, type Session } from "../../../src/hub/session/session.ts"
import type { InboundFrame, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { createManualClock, type ManualClock } from "../../kit/clock.ts"

export interface Core {
  readonly session: Session
  readonly clock: ManualClock
  readonly sql: Sql
  readonly blobs: Map<string, string>
  /** Frames that were sent to a connection, oldest first. */
  readonly sent: (connection: string) => readonly (InboundFrame & Record<string, unknown>)[]
  readonly broadcasts: readonly Record<string, unknown>[]
  readonly closed: readonly (readonly [string, number, string])[]
  readonly reports: readonly string[]
  readonly receive: (connection: string, frame: OutboundFrame | Record<string, unknown>) => void
  /** Opens a connection, sends `hello`, and unless `settle` is false answers the barrier and reports idle. Returns the next seq. */
  readonly connectRunner: (connection: string, hello?: Hello) => number
  /** A new session on the same rows and blobs, as after a crash: the alarm of this one does not fire any more. */
  readonly restart: () => Core
}

interface Hello {
  readonly epoch?: string
  readonly nextSeq?: number
  readonly active?: readonly { messageId: string; channelKey: string; turnId?: string }[]
  readonly from?: number
  readonly settle?: boolean
}

export const createCore = (
  sql: Sql = openBunSql(":memory:"),
  clock = createManualClock(1_000_000),
  answer: Ports["answer"] = () => Promise.reject(new Error("this test expects no request")),
  blobs: Map<string, string> = new Map(),
  more: Partial<Ports> = {},
): Core => {
  const sent = new Map<string, (InboundFrame & Record<string, unknown>)[]>()
  const broadcasts: Record<string, unknown>[] = []
  const closed: (readonly [string, number, string])[] = []
  const reports: string[] = []
  let ids = 0
  let cancelAlarm = () => {}
  const session: Session = createSession({
    sql,
    sockets: {
      send: (connection, text) => {
        const frames = sent.get(connection) ?? []
        frames.push(JSON.parse(text))
        sent.set(connection, frames)
      },
      broadcast: (text) => void broadcasts.push(JSON.parse(text)),
      subscribe: () => {},
      close: (...args) => void closed.push(args),
    },
    blobs: {
      put: (id, _mime, base64) => void blobs.set(id, base64),
      get: (id) => blobs.get(id),
      remove: (id) => void blobs.delete(id),
      ids: () => [...blobs.keys()],
    },
    alarm: {
      set: (at) => {
        cancelAlarm()
        if (at !== undefined)
          cancelAlarm = clock.after(Math.max(0, at - clock.now()), () => session.alarm())
      },
    },
    now: clock.now,
    newId: () => {
      ids += 1
      return `id-${ids}`
    },
    digest: digestOf,
    random: () => 0,
    later: clock.after,
    answer,
    workflowReported: () => {},
    decideExecution: () => Promise.reject(new Error("this test expects no decision")),
    ended: () => {},
    tellParent: async () => {},
    seal: (text) => `sealed:${text}`,
    changed: () => {},
    checkConnections: () => {},
    report: (event) => void reports.push(event),
    ...more,
  })
  const say = (connection: string, frame: object) =>
    session.runner.receive(connection, JSON.stringify(frame))
  const framesOf = (connection: string) => sent.get(connection) ?? []
  return {
    session,
    clock,
    sql,
    blobs,
    sent: framesOf,
    broadcasts,
    closed,
    reports,
    receive: say,
    connectRunner: (
      connection,
      { epoch = "e", nextSeq = 1, active = [], from = nextSeq, settle = true } = {},
    ) => {
      session.runner.opened(connection)
      const runner = { name: "test", version: "0" }
      say(connection, {
        type: "hello",
        protocol: 2,
        runner,
        sessionId: "s",
        epoch,
        nextSeq,
        active,
      })
      if (!settle) return from
      const barrier = framesOf(connection).find((frame) => frame.type === "abort")
      say(connection, { ...barrier, type: "aborted", seq: from })
      say(connection, { type: "agentStatus", status: "idle", seq: from + 1 })
      return from + 2
    },
    restart: () => {
      cancelAlarm()
      return createCore(sql, clock, answer, blobs, more)
    },
  }
}

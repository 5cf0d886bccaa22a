/** What the list of sessions and other programs see of a session: its status, its present work, and what it has used. */
import { z } from "zod"
import type { LiveStatus } from "../../wire/clients/lobby.ts"
import { spentOf } from "../access/budgets.ts"
import { readChannels } from "./channel-summaries.ts"
import { readUsage } from "./client-views.ts"
import { hasEnded } from "./named-values.ts"
import { readRow } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

export interface SessionFacts {
  readonly title: string
  readonly status: "running" | "ended"
  /** When the newest message started or ended; absent without messages. */
  readonly activeAt?: number
  /** The place of the newest message. */
  readonly rev: number
  readonly dollars: number
  readonly tokens: number
  readonly live: LiveStatus
}

export const sessionStatus = z.object({
  status: z.enum(["running", "ended"]),
  connected: z.boolean(),
  working: z.number(),
  queued: z.number(),
  title: z.string().optional(),
})
export type SessionStatus = Readonly<z.output<typeof sessionStatus>>

const titleOf = ({ values }: SessionContext): string | undefined => {
  const title = values.getPublic("title")
  return typeof title === "string" ? title : undefined
}

export const readStatus = (context: SessionContext): SessionStatus => {
  const { values, runnerConnection, queue } = context
  return {
    status: hasEnded(values) ? "ended" : "running",
    connected: runnerConnection.state().connection !== null,
    working: queue.processing().length,
    queued: queue.countQueued(),
    title: titleOf(context),
  }
}

export const readLive = (context: SessionContext): LiveStatus => {
  const { connected, working, queued } = readStatus(context)
  const channels = readChannels(context.ports.sql)
  const waiting = channels.reduce((sum, channel) => sum + channel.waiting, 0)
  return { connected, working, queued, waiting, channels }
}

const lastMessageRow = z.object({ rev: z.number().nullable(), at: z.number().nullable() })

export const readFacts = (context: SessionContext): SessionFacts => {
  const { sql } = context.ports
  const last = readRow(
    sql,
    lastMessageRow,
    "SELECT max(place) AS rev, max(coalesce(ended_at, created_at)) AS at FROM messages",
  )
  return {
    title: titleOf(context) ?? "",
    status: hasEnded(context.values) ? "ended" : "running",
    rev: last?.rev ?? 0,
    ...(typeof last?.at === "number" && { activeAt: last.at }),
    ...spentOf(readUsage(sql)),
    live: readLive(context),
  }
}

/**
 * What a child session reports to its parent: the end of work that the parent ordered, a question, its own end. The parent knows
 * each report by its id: a repeated one changes nothing.
 */
import { z } from "zod"
import { jsonColumn } from "../../lib/json.ts"
import { channelAddress, MAIN_CHANNEL } from "../../wire/channel.ts"
import type { DeliveryKind } from "./deliveries.ts"
import type { DeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import type { NamedValues } from "./named-values.ts"
import type { Ports } from "./ports.ts"
import type { Prompt } from "./queue.ts"
import { hasRow, readRow, readRows } from "./rows.ts"

const childReport = z.object({
  id: z.string(),
  /** `ended` is the end of the session; the others are about work that the parent ordered. */
  kind: z.enum(["done", "failed", "asks", "ended"]),
  title: z.string(),
  text: z.string(),
  /** The parent knows already: it has ended the child itself, or has ended before it. */
  quiet: z.boolean().optional(),
})
export type ChildReport = Readonly<z.output<typeof childReport>>

const awaitedRow = z.object({ prompt: z.string() })
const answerRow = z.object({ text: z.string() })

export interface ChildReports {
  readonly setParent: (parent: string) => void
  readonly parent: () => string | undefined
  /** The parent waits for the end of this prompt. */
  readonly expect: (promptId: string) => void
  /** A prompt has ended. Reported if the parent waits for it. Inside the transaction of the end. */
  readonly promptEnded: (promptId: string, status: "done" | "failed" | "canceled") => void
  /** The agent asks while the parent waits. Inside the transaction that stores the question. */
  readonly asked: (promptId: string | undefined, questionId: string, question: string) => void
  readonly ended: (why: string, quiet: boolean) => void
  readonly kind: DeliveryKind<ChildReport>
}

/** The parent's agent reads it as a prompt: enough for a result, little enough for its context. */
const MAX_TEXT = 8000
export const createChildReports = (
  ports: Ports,
  values: NamedValues,
  deliveries: DeliveryRows<SessionDeliveries>,
): ChildReports => {
  const { sql } = ports
  const parent = () => values.getPrivate("parent")

  const add = (report: Omit<ChildReport, "title">) => {
    if (parent() === undefined) return
    const title = values.getPublic("title")
    const text = report.text.slice(0, MAX_TEXT).toWellFormed()
    const payload = { ...report, text, title: typeof title === "string" ? title : "" }
    // One lane: a parent must not get the end before the result.
    deliveries.add("child-report", { id: report.id, lane: "parent", payload })
  }

  const lastAnswer = (promptId: string): string =>
    readRows(
      sql,
      answerRow,
      `SELECT parts.text FROM parts JOIN messages ON messages.id = parts.message_id
       WHERE messages.prompt_id = ? AND messages.role = 'assistant' AND parts.kind = 'text' AND parts.data IS NULL
         AND messages.place = (SELECT max(place) FROM messages WHERE prompt_id = ? AND role = 'assistant')
       ORDER BY parts.place`,
      promptId,
      promptId,
    )
      .map(({ text }) => text)
      .join("")

  return {
    parent,
    setParent: (session) => values.setPrivate("parent", session),
    expect: (promptId) => sql.run("INSERT OR IGNORE INTO awaited (prompt) VALUES (?)", promptId),
    promptEnded: (promptId, status) => {
      const isAwaited = hasRow(
        sql,
        "DELETE FROM awaited WHERE prompt = ? RETURNING prompt",
        promptId,
      )
      if (!isAwaited) return
      const error = readRow(
        sql,
        z.object({ error: z.string().nullable() }),
        "SELECT error FROM queue WHERE id = ?",
        promptId,
      )?.error
      add({
        id: `end-${promptId}`,
        kind: status === "done" ? "done" : "failed",
        text:
          status === "done"
            ? lastAnswer(promptId)
            : status === "canceled"
              ? "the work was stopped"
              : (error ?? "the turn failed"),
      })
    },
    asked: (promptId, questionId, question) => {
      if (promptId === undefined) return
      if (!hasRow(sql, "SELECT 1 FROM awaited WHERE prompt = ?", promptId)) return
      add({ id: `ask-${questionId}`, kind: "asks", text: question })
    },
    ended: (why, quiet) => {
      const awaited = readRows(sql, awaitedRow, "DELETE FROM awaited RETURNING prompt")
      const answers = awaited.map(({ prompt }) => lastAnswer(prompt)).filter((text) => text !== "")
      const text = [why, ...answers].join("\n\n")
      add({ id: "ended", kind: "ended", text, ...(quiet && { quiet }) })
    },
    kind: {
      payload: childReport,
      backoff: { min: 500, max: 600_000 },
      maxAttempts: 12,
      triesAtStart: true,
      send: async ({ payload }) => {
        const to = parent()
        if (to !== undefined) await ports.tellParent(to, payload)
      },
    },
  }
}

export interface KnownChild {
  readonly id: string
  readonly title: string
  readonly status: "running" | "ended"
  /** Its work for its parent has not ended. A session that is not working still takes messages. */
  readonly isWorking: boolean
  /** Absent for children of an earlier version. */
  readonly workspace?: string | undefined
  readonly createdAt?: number | undefined
}

const childValue = z.object({
  childSessionId: z.string(),
  title: z.string(),
  status: z.string(),
  workspace: z.string().optional(),
  createdAt: z.number().optional(),
})

/** The child sessions that this session has started, as its own database knows them. */
export const readChildren = (sql: Ports["sql"]): readonly KnownChild[] =>
  readRows(
    sql,
    z.object({ value: jsonColumn(childValue) }),
    "SELECT value FROM state WHERE name LIKE 'child:%' ORDER BY rowid",
  ).map(({ value: { childSessionId, title, status, workspace, createdAt } }) => ({
    id: childSessionId,
    title,
    workspace,
    createdAt,
    status: status === "ended" ? "ended" : "running",
    isWorking: status === "running" || status === "asking",
  }))

/** A new child. A report of it may have arrived before: its status stays. */
export const startedChild = (
  known: unknown,
  child: string,
  title: string,
  start: { readonly workspace: string; readonly createdAt: number },
) => ({
  childSessionId: child,
  title,
  status: "running",
  ...childValue.safeParse(known).data,
  ...start,
})

/** The child as clients of its parent see it, in the named value `child:<id>`. `known`: what it was before. */
export const childState = (
  known: unknown,
  child: string,
  { kind, title }: Pick<ChildReport, "kind" | "title">,
) => ({
  ...childValue.safeParse(known).data,
  childSessionId: child,
  title,
  status: kind === "asks" ? "asking" : kind,
})

/** The prompt that gives the parent's agent a report. Its id makes a second delivery a duplicate. */
export const reportPrompt = (child: string, { id, kind, title, text }: ChildReport): Prompt => {
  const name = title === "" ? `Child session ${child}` : `Child session ${child} (${title})`
  const body = text === "" ? "" : `\n\n${text}`
  const heads = {
    done: `${name} has finished its work. Its answer:${text === "" ? " none" : ""}${body}`,
    failed: `${name} has failed:${body}`,
    asks: `${name} asks a question and waits. Answer it with send_message:${body}`,
    ended: `${name} has ended.${body}`,
  } as const
  return {
    type: "prompt",
    messageId: `${child}/${id}`,
    content: heads[kind],
    authorName: `session ${child}`,
    ...channelAddress(MAIN_CHANNEL),
  }
}

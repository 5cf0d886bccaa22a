/**
 * What a child session reports to its parent: the end of work that the parent ordered, a question, its own end. A report
 * is a row of the child until the parent has stored it, and the parent knows each report by its id: a repeated one changes nothing.
 */
import { z } from "zod"
import { backoffMs } from "../../lib/backoff.ts"
import { jsonColumn } from "../../lib/json.ts"
import { channelAddress, MAIN_CHANNEL } from "../../wire/channel.ts"
import type { Deadlines } from "./deadlines.ts"
import { isFinal } from "./final-failure.ts"
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

const reportRow = z.object({
  id: z.string(),
  report: jsonColumn(childReport),
  attempts: z.number(),
})
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
  /** The deadline of a failed report has passed: the next `send` tries again. */
  readonly retry: () => void
  /** Sends what is not confirmed. Call after a commit and after a restart. */
  readonly send: () => void
}

/** The parent's agent reads it as a prompt: enough for a result, little enough for its context. */
const MAX_TEXT = 8000
const MAX_ATTEMPTS = 12
const CONFIRM_MS = 2000
const BACKOFF = { min: 500, max: 600_000 }

export const createChildReports = (
  ports: Ports,
  values: NamedValues,
  deadlines: Deadlines,
): ChildReports => {
  const { sql } = ports
  const parent = () => values.getPrivate("parent")
  /** Reports on their way, so that one is not sent twice at the same time. */
  const sending = new Set<string>()
  let hasNew = true

  const add = (report: Omit<ChildReport, "title">) => {
    if (parent() === undefined) return
    const title = values.getPublic("title")
    const text = report.text.slice(0, MAX_TEXT).toWellFormed()
    const row = { ...report, text, title: typeof title === "string" ? title : "" }
    sql.run(
      "INSERT OR IGNORE INTO child_reports (id, report) VALUES (?, ?)",
      row.id,
      JSON.stringify(row),
    )
    // The alarm wakes a host that was stopped before the parent had it: nothing else may.
    deadlines.set("report", "", ports.now() + CONFIRM_MS)
    hasNew = true
  }

  const remove = (id: string) => {
    sql.run("DELETE FROM child_reports WHERE id = ?", id)
    if (!hasRow(sql, "SELECT 1 FROM child_reports")) deadlines.clear("report", "")
    deadlines.arm()
  }

  const deliver = async (to: string, { id, report, attempts }: z.output<typeof reportRow>) => {
    sending.add(id)
    try {
      await ports.tellParent(to, report)
      remove(id)
    } catch (error) {
      const failed = attempts + 1
      const isGivenUp = isFinal(error) || failed >= MAX_ATTEMPTS
      const event = isGivenUp ? "hub.child-report-given-up" : "hub.child-report-failed"
      ports.report(event, { report: id, attempts: failed })
      if (isGivenUp) return remove(id)
      sql.run("UPDATE child_reports SET attempts = ? WHERE id = ?", failed, id)
      deadlines.set("report", "", ports.now() + backoffMs(attempts, BACKOFF, ports.random()))
      deadlines.arm()
    } finally {
      sending.delete(id)
    }
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
    retry: () => {
      hasNew = true
    },
    send: () => {
      const to = hasNew ? parent() : undefined
      hasNew = false
      if (to === undefined) return
      const rows = readRows(sql, reportRow, "SELECT * FROM child_reports ORDER BY rowid")
      // One after the other: a parent must not get the end before the result.
      void rows
        .filter(({ id }) => !sending.has(id))
        .reduce((before, row) => before.then(() => deliver(to, row)), Promise.resolve())
        // The host was stopped meanwhile. The rows stay for its next start.
        .catch((error: unknown) =>
          ports.report("hub.child-reports-failed", { error: String(error) }),
        )
    },
  }
}

export interface KnownChild {
  readonly id: string
  readonly title: string
  readonly status: "running" | "ended"
  /** Its work for its parent has not ended. A session that is not working still takes messages. */
  readonly isWorking: boolean
}

const childValue = jsonColumn(
  z.object({ childSessionId: z.string(), title: z.string(), status: z.string() }),
)

/** The child sessions that this session has started, as its own database knows them. */
export const readChildren = (sql: Ports["sql"]): readonly KnownChild[] =>
  readRows(
    sql,
    z.object({ value: childValue }),
    "SELECT value FROM state WHERE name LIKE 'child:%' ORDER BY rowid",
  ).map(({ value: { childSessionId, title, status } }) => ({
    id: childSessionId,
    title,
    status: status === "ended" ? "ended" : "running",
    isWorking: status === "running" || status === "asking",
  }))

/** The child as clients of its parent see it, in the named value `child:<id>`. */
export const childState = (
  child: string,
  { kind, title }: Pick<ChildReport, "kind" | "title">,
) => ({
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

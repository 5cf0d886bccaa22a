/**
 * The data that all sessions of one hub share (memories, tasks, mailbox, workflows, triggers) and the requests answered
 * from it. A repeated request id returns the stored result: each request runs once.
 */
import type { Outbound, RequestFrame } from "../../wire/frames/index.ts"
import type { Alarm, DecisionOutcome, ExecutionDecision, Sql } from "../session/ports.ts"
import { earliest } from "../session/deadlines.ts"
import { createEffects, type EffectSenders } from "./effects.ts"
import { createExecutions, executionHandlers } from "../handlers/executions.ts"
import { everyUser, type MailReader } from "../access/mail-reader.ts"
import { mailboxHandlers, setHandle } from "../handlers/mailbox.ts"
import { memoryHandlers } from "../handlers/memories.ts"
import { proposalActions } from "../handlers/proposals.ts"
import { createResults } from "./results.ts"
import type { GitChange } from "../handlers/git-retries.ts"
import { createPersonas, type Personas, type PersonaText } from "./personas.ts"
import { createSharedTables } from "./schema.ts"
import {
  answerStoreRequest,
  type Caller,
  isStoreRequest,
  nameOfRequest,
  type StoreHandlers,
} from "../handlers/handler-table.ts"
import { taskHandlers } from "../handlers/tasks.ts"
import type { HandlerContext } from "../handlers/handler-context.ts"
import { hideStoredSecrets } from "../handlers/webhook-secrets.ts"
import { createTriggers, type HookAnswer, type HookCall } from "../handlers/triggers.ts"
import { workflowActions } from "../handlers/workflow-actions.ts"
import { createWorkflows, workflowHandlers } from "../handlers/workflows.ts"

export interface SharedStoreOptions {
  readonly sql: Sql
  readonly tools: HandlerContext
  readonly alarm: Alarm
  readonly deliveries: EffectSenders
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
  /** Removes deleted text from the files of the database. Absent where the host does it. */
  readonly compact?: () => void
  /** Personas that the host keeps as files. */
  readonly personaFiles?: () => readonly PersonaText[]
}

export interface SharedStore {
  /** Undefined when the request needs more than the shared store. Throws a Refusal with a message for the caller. */
  readonly answer: (
    session: string,
    frame: RequestFrame,
    reader?: MailReader,
  ) => Record<string, unknown> | undefined
  readonly personas: Personas
  /** Keeps a change of a pull request, to be tried again until it succeeds or is given up. */
  readonly retryGit: (caller: Caller, change: GitChange) => void
  /** Gives a session its handle. A handle belongs to one session: the one that got it last. */
  readonly setHandle: (handle: string, session: string) => void
  /** Stores the result that a runner reports for a workflow execution. A known `reportId` changes nothing. */
  readonly executed: (
    id: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
    reportId: string,
  ) => void
  /** A client of the session approves or denies an execution that waits for it. */
  readonly decide: (session: string, decision: ExecutionDecision) => DecisionOutcome
  /** What a call of this webhook with this secret is answered before its body is read: 202 if it would fire. */
  readonly hookStatus: (trigger: string, secret: string) => HookAnswer
  /** Fires a webhook trigger. */
  readonly hook: (trigger: string, call: HookCall) => HookAnswer
  /** Fires the triggers that are due and retries failed effects. */
  readonly alarm: () => void
  /** Sets the alarm and delivers effects that a previous process did not deliver. */
  readonly start: () => void
}

/** Stands for the session in the ids of reports: no session has a name with a space. */
const REPORTS = "workflow report"

export const createSharedStore = ({
  sql,
  tools: context,
  alarm,
  deliveries,
  report,
  compact,
  personaFiles = () => [],
}: SharedStoreOptions): SharedStore => {
  createSharedTables(sql)
  if (hideStoredSecrets(sql, context.digest)) compact?.()
  const setAlarm = () => alarm.set(earliest([triggers.nextAlarm(), effects.nextAlarm()]))
  const effects = createEffects({
    sql,
    now: context.now,
    senders: deliveries,
    commit: (work) => {
      sql.transaction(work)
      setAlarm()
    },
    orderFailed: (executionId, reason) => executions.failed(executionId, reason),
    report,
  })
  const personas = createPersonas(sql, context.now, personaFiles)
  const workflows = createWorkflows(sql, context)
  const executions = createExecutions(sql, context, effects)
  const results = createResults(sql, context)
  const triggers = createTriggers(sql, context, workflows, executions, effects, results)
  const actions = {
    ...workflowActions(sql, workflows),
    ...proposalActions(sql, context, workflows),
  }
  const handlers: StoreHandlers = {
    ...memoryHandlers(sql, context),
    ...taskHandlers(sql, context),
    ...mailboxHandlers(sql, context, effects),
    ...workflowHandlers(sql, context, workflows),
    ...executionHandlers(sql, context, workflows, executions, effects),
    ...triggers.handlers,
    "list-personas": () => ({ personas: [...personas.list()] }),
    "workflow-api": ({ action, payload }, { session }) => ({
      data: actions[action](payload, session),
    }),
  }

  const commit = <Result>(work: () => Result): Result => {
    const result = sql.transaction(work)
    setAlarm()
    void effects.send()
    return result
  }

  return {
    answer: (session, frame, reader = everyUser) => {
      if (!isStoreRequest(handlers, frame)) return undefined
      const caller = { session, requestId: frame.requestId, reader }
      return commit(() =>
        results.once({ from: session, id: frame.requestId }, frame.type, () =>
          answerStoreRequest(handlers, frame.type, frame, caller),
        ),
      )
    },
    executed: (id, envelope, reportId) =>
      commit(
        () =>
          void results.once({ from: REPORTS, id: reportId }, "workflow-report", () => {
            executions.executed(id, envelope)
            return {}
          }),
      ),
    personas,
    retryGit: ({ session, requestId }, change) =>
      commit(() => {
        const id = `git-${nameOfRequest(session, requestId)}`
        // A lane of its own: an outage of the git host must not hold back prompts.
        effects.add(id, session, { do: "git", requestId, change }, `git:${session}`)
      }),
    setHandle: (handle, session) => commit(() => setHandle(sql, handle, session)),
    decide: (session, decision) => commit(() => executions.decide(session, decision)),
    hookStatus: triggers.hookStatus,
    hook: (trigger, call) => commit(() => triggers.hook(trigger, call)),
    alarm: () => {
      effects.wake()
      commit(triggers.alarm)
    },
    start: () => commit(() => {}),
  }
}

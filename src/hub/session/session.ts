/** One session: the runner's side, the clients' side and the deadlines, over the host's ports. */
import { closeApprovals } from "./approvals.ts"
import { hasPrompt } from "./chat-sends.ts"
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import { z } from "zod"
import { closeReasons } from "../../wire/close-reasons.ts"
import type { Inbound, RequestResult } from "../../wire/frames/index.ts"
import type { LiveStatus } from "../../wire/clients/lobby.ts"
import type { MessageWithParts, Snapshot } from "../../wire/clients/conversation.ts"
import {
  type ChildReport,
  childState,
  type KnownChild,
  readChildren,
  reportPrompt,
  startedChild,
} from "./child-reports.ts"
import { type ClientSide, createClientSide } from "./client-verbs.ts"
import { readMessages, readSnapshot } from "./client-views.ts"
import { type Configure, createConfigure } from "./session-config.ts"
import { checkBudget, type OwnerAccount } from "./budget.ts"
import type { Budget, BudgetState } from "../access/budgets.ts"
import { meetDeadlines } from "./meet-deadlines.ts"
import { addNote, addNotification, type Note, type Notification } from "./notes.ts"
import { addOrder, cancelExecution } from "./workflow-orders.ts"
import { createSessionContext } from "./session-context.ts"
import {
  readFacts,
  readLive,
  readStatus,
  type SessionFacts,
  type SessionStatus,
} from "./session-facts.ts"
import { readActivity, readWish } from "./activity.ts"
import type { Ports, SandboxWish, SessionActivity } from "./ports.ts"
import { answerFromChat } from "./chat-questions.ts"
import {
  abandonPrompt,
  answerQuestion,
  dispatch,
  stopPrompts,
  withdrawAll,
} from "./prompt-lifecycle.ts"
import { hasOtherModel, setOwnerModel, setSessionModel } from "./prompt-models.ts"
import type { Prompt } from "./queue.ts"
import { readChannelKeys } from "./channel-summaries.ts"
import { type AgentConfig, movableRow, readPrompt, readRow } from "./rows.ts"
import { type SearchResult, searchText } from "./search.ts"
import { createRunnerSide, type RunnerSide } from "./runner-side.ts"
import { migrate } from "./schema.ts"
import { sameText } from "../../lib/constant-time.ts"
import { FinalFailure } from "./final-failure.ts"
import {
  hasEnded,
  type NamedValues,
  readGeneration,
  renameSession,
  setPull,
} from "./named-values.ts"

export interface Session {
  readonly runner: RunnerSide
  readonly clients: ClientSide
  /**
   * Stores only the hash of the runner's token. A new token starts a new generation: the next number, or the given one.
   * With a given number the connection of an earlier runner ends.
   */
  readonly setRunnerToken: (hash: string, generation?: number) => void
  /** What its sandbox is made with. */
  readonly setWish: (wish: SandboxWish) => void
  readonly wish: () => SandboxWish | undefined
  readonly activity: () => SessionActivity
  /** The child sessions that were started from this one. */
  readonly children: () => readonly KnownChild[]
  /** The HTTP status that refuses a runner with this token's hash; `undefined` when it may connect. */
  readonly refuseRunner: (hash: string) => 401 | 410 | 503 | undefined
  /** Merges into the stored config, which the runner gets when it connects. An empty change encrypts it again. */
  readonly configure: Configure
  /** The agent may change it. */
  readonly setTitle: (title: string) => void
  /** The agent does not change it any more. */
  readonly rename: (title: string) => void
  /** The model of prompts that name none; it comes before the owner's and the runner's. */
  readonly setModel: (model: string) => void
  /** A prompt of another session or of a trigger. Idempotent by its `messageId`. Throws when the session has ended. */
  readonly prompt: (prompt: Prompt, channel: string, options?: PromptOptions) => void
  /** Why a prompt with this `messageId` would not be queued: another one has it. A repeated prompt is no problem. */
  readonly problemOfPrompt: (messageId: string, content: string) => string | undefined
  /** Stops the running prompts of a channel and withdraws its queued ones. */
  readonly stop: (channel: string) => void
  /** Makes this session a child: its parent gets a prompt when it ends, fails or asks. */
  readonly setParent: (parent: string) => void
  /** A child session was started: clients see it in the named value `child:<id>`. */
  readonly childStarted: (child: string, title: string, workspace: string) => void
  /** A report of a child session. Idempotent by its id. Throws when this session has ended. */
  readonly childReported: (child: string, report: ChildReport) => void
  /** Orders the runner to run a workflow. Throws when the session has ended. Sent again on every connection until the runner reports a result. */
  readonly orderWorkflow: (id: string, frame: Inbound<"workflow-execute">) => void
  /** Cancels a run for good. Sent again on every connection until it is confirmed; later orders are ignored. */
  readonly cancelWorkflow: (executionId: string) => void
  /** A line in the conversation that is not a prompt. Idempotent by its id. */
  readonly note: (line: Note) => void
  /** Shows clients a notification that this session sent or received. Idempotent by its id. */
  readonly notify: (notification: Notification) => void
  /** Shows clients a pull request of this session: opened, found or changed. */
  readonly showPull: (pull: RequestResult<"update-pr">) => void
  readonly config: () => AgentConfig
  /** Increases with every new token, so that keys of an earlier sandbox are not valid for a later one. */
  readonly generation: () => number
  /** The public address of the connected runner's gateway. */
  readonly gatewayUrl: () => string | undefined
  /** A named value as clients see it. */
  readonly state: (name: string) => unknown
  readonly channels: () => readonly string[]
  /** A prompt has come from this channel. The runner alone makes no channel that counts. */
  readonly hasPromptFrom: (channel: string) => boolean
  /** Ends the session: the runner is stopped and cannot connect again. `quiet`: its parent knows already. */
  readonly terminate: (why: string, options?: { readonly quiet?: boolean }) => void
  /** The host's alarm has fired. */
  readonly alarm: () => void
  /** Call after a restart or a sleep, with the connections that still exist. */
  readonly recover: (connections: readonly string[]) => void
  /** With a channel, the messages are those of this channel only. */
  readonly snapshot: (channel?: string) => Snapshot
  /** The type of a file or an image of the conversation; undefined if there is none with this id. */
  readonly artifactType: (id: string) => string | undefined
  readonly search: (query: string, limit: number) => SearchResult
  readonly recent: (limit: number) => readonly MessageWithParts[]
  readonly status: () => SessionStatus
  /** What its row in the list of sessions shows of the present: its work, its open questions and its conversations. */
  readonly live: () => LiveStatus
  /** What the list of sessions shows. */
  readonly facts: () => SessionFacts
  readonly budget: () => { readonly limits: Budget; readonly state: BudgetState }
  readonly setBudget: (limits: Budget) => void
  /** What the owner has spent over all its sessions, and may spend; and the model of its prompts that name none. */
  readonly setOwnerAccount: (account: OwnerAccount) => void
  /** The host checks its connections at this time, because a token expires; `undefined`: no token does. */
  readonly checkConnectionsAt: (at: number | undefined) => void
}

export interface PromptOptions {
  readonly interrupt?: boolean
  /** The session that sent it. It answers an open question; if it is the parent's, its end is reported to the parent. */
  readonly fromSession?: string | undefined
  /** A message of a chat service. It answers a question or a permission that is open in its channel. */
  readonly fromChat?: boolean
}

/** `config`: the decrypted text of the stored config, if there is one. */
export const createSession = (ports: Ports, config?: string): Session => {
  migrate(ports.sql)
  const context = createSessionContext(ports, config)
  const { values, queue, runnerConnection, commit } = context
  const runner = createRunnerSide(context)
  const configure = createConfigure(context)
  const generation = () => readGeneration(values)

  return {
    runner,
    clients: createClientSide(context, runner.flush),
    setRunnerToken: (hash, next) => {
      const { connection } = runnerConnection.state()
      if (next !== undefined && connection !== null) {
        runner.closed(connection)
        ports.sockets.close(connection, 1000, closeReasons.replaced)
      }
      commit(() => {
        values.setPrivate("runner-token", hash)
        values.setPrivate("generation", String(next ?? generation() + 1))
        values.setPrivate("runner-of", next === undefined ? "other" : "fleet")
      })
    },
    setWish: (wish) => commit(() => values.setPrivate("wish", JSON.stringify(wish))),
    wish: () => readWish(values),
    activity: () => readActivity(context),
    children: () => readChildren(ports.sql),
    refuseRunner: (hash) => {
      const expected = values.getPrivate("runner-token")
      if (expected === undefined) return 503
      if (!sameText(hash, expected)) return 401
      return hasEnded(values) ? 410 : undefined
    },
    configure,
    setTitle: (title) => commit(() => values.setPublic("title", title)),
    rename: (title) => commit(() => renameSession(values, title)),
    setModel: (model) => commit(() => setSessionModel(values, model)),
    setParent: (parent) => commit(() => context.childReports.setParent(parent)),
    childStarted: (child, title, workspace) =>
      commit(() => {
        const name = `child:${child}`
        const start = { workspace, createdAt: ports.now() }
        values.setPublic(name, startedChild(values.getPublic(name), child, title, start))
      }),
    childReported: (child, report) => {
      if (!report.quiet && !queue.find(reportPrompt(child, report).messageId)) refuseIfEnded(values)
      commit(() => {
        const name = `child:${child}`
        values.setPublic(name, childState(values.getPublic(name), child, report))
        const prompt = reportPrompt(child, report)
        if (report.quiet || queue.find(prompt.messageId)) return
        queue.add(prompt, MAIN_CHANNEL)
        dispatch(context)
      })
    },
    prompt: (prompt, channel, { interrupt = false, fromSession, fromChat = false } = {}) => {
      if (queue.find(prompt.messageId)) return
      refuseIfEnded(values)
      commit(() => {
        queue.add(prompt, channel, undefined, interrupt)
        if (fromChat && answerFromChat(context, prompt, channel)) return
        if (fromSession !== undefined) {
          if (answerQuestion(context, prompt, channel)) return
          if (fromSession === context.childReports.parent())
            context.childReports.expect(prompt.messageId)
        }
        if (interrupt) stopPrompts(context, channel)
        dispatch(context)
      })
    },
    problemOfPrompt: (messageId, content) => {
      const known = queue.find(messageId)
      return known === undefined || readPrompt(known.prompt).content === content
        ? undefined
        : `the message id ${messageId} was used for another message: send a new one`
    },
    stop: (channel) =>
      commit(() => {
        withdrawAll(context, channel)
        stopPrompts(context, channel)
      }),
    orderWorkflow: (id, frame) => {
      refuseIfEnded(values)
      commit(() => {
        addOrder(context, id, frame)
        dispatch(context)
      })
    },
    cancelWorkflow: (executionId) => commit(() => cancelExecution(context, executionId)),
    note: (line) => commit(() => addNote(context, line)),
    showPull: ({ number, title, url, state }) =>
      commit(() => setPull(values, { number, title, url, status: state })),
    notify: (notification) => commit(() => addNotification(values, notification)),
    generation,
    config: values.config,
    gatewayUrl: () => connectedRunner.safeParse(values.getPublic("runner")).data?.gatewayUrl,
    state: values.getPublic,
    channels: () => readChannelKeys(ports.sql),
    hasPromptFrom: (channel) => hasPrompt(ports.sql, channel),
    terminate: (why, { quiet = false } = {}) => {
      const { connection } = runnerConnection.state()
      commit(() => {
        if (!hasEnded(values)) context.childReports.ended(why, quiet)
        values.setPublic("session", { status: "ended", why })
        closeApprovals(context)
        withdrawAll(context, undefined)
        for (const { id } of queue.processing()) abandonPrompt(context, id, "session")
        context.sendToRunner({ type: "stop" })
      })
      if (connection !== null) ports.sockets.close(connection, 1000, closeReasons.terminated)
    },
    alarm: () => {
      context.deliveries.wake()
      commit(() => meetDeadlines(context))
    },
    recover: (connections) => {
      const { connection } = runnerConnection.state()
      if (connection !== null && !connections.includes(connection)) runner.closed(connection)
      context.attachments.deleteOrphans()
      context.deliveries.start()
      context.deadlines.arm()
      void context.deliveries.send()
    },
    snapshot: (channel) => {
      runner.flush()
      return readSnapshot(ports.sql, context.changes.rev(), channel)
    },
    artifactType: (id) =>
      readRow(ports.sql, movableRow, "SELECT id, mime FROM artifacts WHERE id = ?", id)?.mime,
    search: (query, limit) => {
      runner.flush()
      return searchText(ports.sql, { query, limit })
    },
    recent: (limit) => {
      runner.flush()
      return readMessages(ports.sql, { limit }).messages
    },
    status: () => readStatus(context),
    live: () => readLive(context),
    facts: () => readFacts(context),
    budget: () => ({ limits: context.budget.limits(), state: context.budget.state() }),
    setBudget: (limits) =>
      commit(() => {
        context.budget.setLimits(limits)
        checkBudget(context)
      }),
    setOwnerAccount: (account) => {
      if (hasOtherModel(values, account.model)) commit(() => setOwnerModel(values, account.model))
      // Without limits before and now there is nothing to compare, and no transaction is needed.
      if (!context.budget.concerns(account)) return
      commit(() => {
        context.budget.setOwner(account)
        checkBudget(context)
      })
    },
    checkConnectionsAt: (at) =>
      commit(() => {
        if (at === undefined) context.deadlines.clear("access", "")
        else context.deadlines.set("access", "", at)
      }),
  }
}

const connectedRunner = z.object({ connected: z.literal(true), gatewayUrl: z.string().optional() })

/** Call before a transaction: on workerd an error loses its fields when it leaves one. */
const refuseIfEnded = (values: NamedValues): void => {
  if (hasEnded(values)) throw new FinalFailure("the session has ended")
}

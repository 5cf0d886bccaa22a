/** The clients' side of a session: what each verb does and what it replies. The table of verbs is total. */
import { closeApproval } from "./approvals.ts"
import type { CommandFrame, RequestFrame } from "../../wire/frames/index.ts"
import { channelAddress, channelKey, hasChannel } from "../../wire/channel.ts"
import {
  type Client,
  type ClientMessage,
  type RefusalCode,
  type Reply,
} from "../../wire/clients/verbs.ts"
import { readAround, readMessages, readSnapshot } from "./client-views.ts"
import type { SessionContext } from "./session-context.ts"
import {
  answerFrame,
  dispatch,
  addPromptToConversation,
  stopPrompts,
  withdrawAll,
} from "./prompt-lifecycle.ts"
import type { Prompt } from "./queue.ts"
import { hasEnded, renameSession } from "./named-values.ts"
import type { Answered } from "./interactions.ts"
import { hasRow } from "./rows.ts"
import { readChannelKeys } from "./channel-summaries.ts"
import { searchText } from "./search.ts"

export interface ClientSide {
  /** Sends a snapshot, or the changes since the cursor, then live events. Also for event streams (SSE). */
  readonly subscribe: (connection: string, from: SubscribeFrom) => void
  /** Access is decided before (`access/guarded-clients.ts`). `by` names the principal. */
  readonly request: (message: RequestMessage, by: string) => Reply
  /** Asks the shared store, which may be another object: the reply comes later. */
  readonly approve: (message: Client<"approve-execution">) => Promise<Reply>
  /** Reads or changes what the sessions of this session's owner share. */
  readonly askStore: (message: Client<StoreVerb>) => Promise<Reply>
}

export interface SubscribeFrom {
  readonly cursor?: number | undefined
  /** The channel whose messages the snapshot holds; `undefined`: all channels. */
  readonly channel?: string | undefined
}

/**
 * `subscribe` needs a connection; `config` is asynchronous, because the config is encrypted; the host makes the links of
 * `open` and carries out `end`.
 */
export type RequestMessage = Exclude<
  ClientMessage,
  { type: "subscribe" | "config" | "approve-execution" | "open" | "end" | StoreVerb }
>

/** Verbs that the shared store answers. */
export type StoreVerb = "tasks" | "memories" | "forget"

type Verbs = {
  readonly [Verb in RequestMessage["type"]]: (message: Client<Verb>, by: string) => Reply
}

/** Far more than people type: it stops a script that floods the queue. */
const MAX_QUEUED = 100
/** The shortest time between two snapshots for one connection. */
const SUBSCRIBE_PAUSE_MS = 100
/** How long a client's question to the runner stays open. */
const ASK_MS = 120_000
/** Text stored in one row: a character may take three bytes, and a row holds less than 2 MB. */
const MAX_TEXT = 500_000

const isBase64 = (url: string): boolean => /^data:[^,]*;base64,/i.test(url)

export const createClientSide = (context: SessionContext, flush: () => void): ClientSide => {
  const { ports, changes } = context
  const verbs = verbsOf(context)

  const request: ClientSide["request"] = (message, by) => {
    const run: (message: never, by: string) => Reply = verbs[message.type]
    return context.commit(() => {
      const reply = run(message as never, by)
      if (reply.ok) dispatch(context)
      return reply
    })
  }

  const subscribe = (connection: string, { cursor, channel }: SubscribeFrom) => {
    // Buffered deltas were only broadcast: a new subscriber must find them in the rows.
    flush()
    const events = cursor === undefined ? undefined : changes.since(cursor)
    const rev = changes.rev()
    const first = events
      ? { type: "changes", from: cursor, rev, events }
      : readSnapshot(ports.sql, rev, channel)
    ports.sockets.send(connection, JSON.stringify(first))
    ports.sockets.subscribe(connection)
  }

  /** A snapshot may be megabytes: a connection that asks again and again gets one per pause, for its last cursor. */
  const recent = new Map<string, { again?: SubscribeFrom }>()
  const subscribeAgain = (connection: string, from: SubscribeFrom): void => {
    const known = recent.get(connection)
    if (known) {
      known.again = from
      return
    }
    const entry: { again?: SubscribeFrom } = {}
    recent.set(connection, entry)
    subscribe(connection, from)
    ports.later(SUBSCRIBE_PAUSE_MS, () => {
      recent.delete(connection)
      if (entry.again) subscribeAgain(connection, entry.again)
    })
  }

  const approve: ClientSide["approve"] = async ({ executionId, approve: isApproved, reason }) => {
    const decision = { executionId, isApproved, reason }
    const outcome = await ports.decideExecution(decision).catch(() => undefined)
    if (!outcome) return refuse("conflict", "the decision could not be stored: try again")
    // The order that follows closes it too, if the host is stopped here. A refused one is not waited for.
    context.commit(() => closeApproval(context, executionId, outcome.ok ? isApproved : undefined))
    return outcome.ok
      ? { ok: true, status: outcome.status }
      : refuse(outcome.isUnknown ? "not-found" : "too-late", outcome.message)
  }

  return {
    subscribe: subscribeAgain,
    request,
    approve,
    askStore: async (message) => {
      try {
        return { ok: true, ...(await ports.answer(storeRequest(message, ports.newId()))) }
      } catch (error) {
        const { message: reason } = error as Error
        return refuse(message.type === "forget" ? "not-found" : "conflict", reason)
      }
    },
  }
}

const storeRequest = (message: Client<StoreVerb>, requestId: string): RequestFrame => {
  switch (message.type) {
    case "tasks":
      return { type: "task-list", requestId }
    case "memories":
      return { type: "memory-read", requestId, query: message.query }
    case "forget":
      return { type: "memory-delete", requestId, memoryId: message.id }
  }
}

const refuse = (code: RefusalCode, message: string): Reply => ({
  ok: false,
  error: { code, message },
})

const NO_RUNNER = refuse(
  "no-runner",
  "the runner is not connected: try again when the sandbox runs",
)
const NOT_QUEUED = "the prompt is not in the queue any more: it runs or has ended"

const verbsOf = (context: SessionContext): Verbs => {
  const { ports, queue, interactions, runnerConnection, values, sendToRunner } = context
  const hasRunner = () => runnerConnection.state().connection !== null
  /** A question to the runner. The result comes as an `answer` event, or the question expires after `ASK_MS`. */
  const ask = (kind: string, make: (requestId: string) => CommandFrame): Reply => {
    if (!hasRunner()) return NO_RUNNER
    const requestId = ports.newId()
    ports.sql.run(
      "INSERT INTO asks (id, kind, status, at) VALUES (?, ?, 'open', ?)",
      requestId,
      kind,
      ports.now(),
    )
    context.deadlines.set("ask", requestId, ports.now() + ASK_MS)
    sendToRunner(make(requestId))
    return { ok: true, requestId }
  }
  const answer = (answered: Answered, by: string): Reply => {
    const { id, kind } = answered
    if (!interactions.exists(id)) return refuse("not-found", `${kind} ${id} does not exist`)
    if (!interactions.answer(answered, by)) {
      return refuse("too-late", `${kind} ${id} is answered already or has expired`)
    }
    sendToRunner(answerFrame(answered))
    return { ok: true }
  }
  return {
    prompt: ({ type, clientRequestId, ...rest }) => {
      if (hasEnded(values)) return refuse("too-late", "the session has ended: start a new one")
      const channel = channelKey(rest)
      const prompt: Prompt = { type, messageId: ports.newId(), ...rest, ...channelAddress(channel) }
      if (rest.attachments?.some(({ url }) => url.length > MAX_TEXT && !isBase64(url))) {
        return refuse("bad-request", "attachments: a data URL of this size must be base64")
      }
      const queued = queue.countQueued()
      if (queued >= MAX_QUEUED)
        return refuse("too-many", `${queued} prompts are queued already: wait until some have run`)
      const added = queue.add(prompt, channel, clientRequestId)
      if (!added)
        return refuse(
          "conflict",
          "this clientRequestId was used for another prompt: send a new one",
        )
      return { ok: true, messageId: added.id, fresh: added.fresh }
    },
    abort: (message) => {
      const channel = hasChannel(message) ? channelKey(message) : undefined
      const withdrawn = message.queued === true ? withdrawAll(context, channel) : 0
      return { ok: true, stopping: stopPrompts(context, channel), withdrawn }
    },
    answer: ({ id, answer: given }, by) => answer({ id, kind: "question", answer: given }, by),
    permission: ({ id, reply }, by) => answer({ id, kind: "permission", answer: reply }, by),
    withdraw: ({ id }) => {
      if (!queue.find(id)) return refuse("not-found", `prompt ${id} does not exist`)
      return queue.withdraw(id) ? { ok: true } : refuse("too-late", NOT_QUEUED)
    },
    promote: ({ id }, by) => {
      const row = queue.find(id)
      if (!row) return refuse("not-found", `prompt ${id} does not exist`)
      if (row.status !== "queued") return refuse("too-late", NOT_QUEUED)
      const question = interactions.openQuestion(row.channel)
      if (question === undefined)
        return queue.promote(id) ? { ok: true } : refuse("too-late", NOT_QUEUED)
      // The agent waits for an answer: the promoted prompt is the answer.
      const prompt = queue.promptOf(row)
      addPromptToConversation(context, prompt, row.channel)
      queue.finish(id, "done")
      const reply = answer({ id: question, kind: "question", answer: prompt.content }, by)
      return { ...reply, answered: question }
    },
    revert: ({ messageId }) => {
      if (!hasRunner()) return NO_RUNNER
      if (!hasRow(ports.sql, "SELECT 1 FROM messages WHERE id = ?", messageId))
        return refuse("not-found", `message ${messageId} does not exist`)
      sendToRunner({ type: "revert", messageId })
      return { ok: true }
    },
    command: ({ command, args }) =>
      ask("command", (requestId) => ({ type: "opencode-command", command, args, requestId })),
    diff: ({ path }) =>
      ask("diff", (requestId) => {
        if (path !== undefined)
          ports.sql.run("INSERT INTO ask_paths (id, path) VALUES (?, ?)", requestId, path)
        return { type: "diff", requestId }
      }),
    rename: ({ title, channel }) => {
      if (channel === undefined) {
        renameSession(values, title)
        return { ok: true }
      }
      if (!readChannelKeys(ports.sql).includes(channel))
        return refuse("not-found", `channel ${channel} does not exist`)
      ports.sql.run(
        "INSERT OR REPLACE INTO channel_titles (key, title) VALUES (?, ?)",
        channel,
        title,
      )
      context.changes.record("channel", channel)
      return { ok: true }
    },
    seen: ({ rev, channel }) => {
      if (!readChannelKeys(ports.sql).includes(channel))
        return refuse("not-found", `channel ${channel} does not exist`)
      values.setPublic(`seen:${channel}`, { rev })
      return { ok: true }
    },
    search: ({ query, channel, limit = 20 }) => ({
      ok: true,
      ...searchText(ports.sql, { query, channel, limit }),
    }),
    review: () => ask("review", (requestId) => ({ type: "review", requestId })),
    "new-session": (message) =>
      ask("new-session", (requestId) => ({
        type: "new-session",
        ...channelAddress(channelKey(message)),
        requestId,
      })),
    "delete-tunnel": ({ name }) => {
      if (!hasRunner()) return NO_RUNNER
      sendToRunner({ type: "tunnel-delete", name })
      return { ok: true }
    },
    history: ({ before, after, around, channel, limit = 50 }) => {
      if (around === undefined)
        return { ok: true, ...readMessages(ports.sql, { limit, channel, before, after }) }
      const page = readAround(ports.sql, around, { limit, channel })
      return page ? { ok: true, ...page } : refuse("not-found", `message ${around} does not exist`)
    },
  }
}

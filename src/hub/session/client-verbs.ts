/** The clients' side of a session: what each verb does, and its one reply. The map is total. */
import type { CommandFrame } from "../../wire/frames/index.ts"
import { channelAddress, channelKey, hasChannel } from "../../wire/channel.ts"
import {
  type Client,
  type ClientMessage,
  type ClientVerb,
  parseClientMessage,
  type RefusalCode,
  type Reply,
} from "../../wire/clients/verbs.ts"
import { readMessages, readSnapshot } from "./client-views.ts"
import type { SessionContext } from "./session-context.ts"
import { answerFrame, dispatch, showPrompt, stopPrompts, withdrawAll } from "./prompt-lifecycle.ts"
import type { Prompt } from "./queue.ts"
import { hasEnded } from "./named-values.ts"

export interface ClientSide {
  /** A frame of a client's WebSocket. */
  readonly said: (connection: string, text: string) => void
  /** Snapshot or what changed since, then live; also for a stream that cannot speak, as SSE. */
  readonly subscribe: (connection: string, cursor: number | undefined) => void
  readonly request: (message: Exclude<ClientMessage, { type: "subscribe" }>, by: string) => Reply
}

type Verbs = {
  readonly [Verb in Exclude<ClientVerb, "subscribe">]: (message: Client<Verb>, by: string) => Reply
}

/** Nobody types faster than this; a script that does is told so. */
const MOST_QUEUED = 100
const ASK_MS = 120_000
/** What goes into a row as it is: a character may take three bytes, and a row holds less than 2 MB. */
const MOST_TEXT = 500_000

const isBase64 = (url: string): boolean => /^data:[^,]*;base64,/i.test(url)

export const createClientSide = (parts: SessionContext, flush: () => void): ClientSide => {
  const { ports, changes } = parts
  const verbs = verbsOf(parts)

  const request: ClientSide["request"] = (message, by) => {
    const run: (message: never, by: string) => Reply = verbs[message.type]
    return parts.commit(() => {
      const reply = run(message as never, by)
      if (reply.ok) dispatch(parts)
      return reply
    })
  }

  const subscribe = (connection: string, cursor: number | undefined) => {
    // Words that are not written yet were told live only: whoever comes now must find them in the rows.
    flush()
    const events = cursor === undefined ? undefined : changes.since(cursor)
    const rev = changes.rev()
    const first = events
      ? { type: "changes", from: cursor, rev, events }
      : readSnapshot(ports.sql, rev)
    ports.sockets.send(connection, JSON.stringify(first))
    ports.sockets.subscribe(connection)
  }

  return {
    subscribe,
    request,
    said: (connection, text) => {
      const reply = (value: Reply, id?: string) =>
        ports.sockets.send(
          connection,
          JSON.stringify({
            type: "reply",
            ...(id !== undefined && { clientRequestId: id }),
            ...value,
          }),
        )
      const value = fromJson(text)
      if (isPing(value)) return ports.sockets.send(connection, '{"type":"pong"}')
      const parsed = parseClientMessage(value)
      if (!parsed.ok) return reply(refuse("bad-request", parsed.problem), idOf(value))
      const { message } = parsed
      if (message.type === "subscribe") return subscribe(connection, message.cursor)
      reply(request(message, connection), message.clientRequestId)
    },
  }
}

const refuse = (code: RefusalCode, message: string): Reply => ({
  ok: false,
  error: { code, message },
})

const verbsOf = (parts: SessionContext): Verbs => {
  const { ports, queue, interactions, link, state, say } = parts
  const hasRunner = () => link.now().connection !== null
  /** Questions to the runner: answered by an event, or by a deadline. */
  const ask = (kind: string, make: (requestId: string) => CommandFrame): Reply => {
    if (!hasRunner()) return refuse("no-runner", "the runner is not connected")
    const requestId = ports.newId()
    ports.sql.run(
      "INSERT INTO asks (id, kind, status, at) VALUES (?, ?, 'open', ?)",
      requestId,
      kind,
      ports.now(),
    )
    parts.deadlines.set("ask", requestId, ports.now() + ASK_MS)
    say(make(requestId))
    return { ok: true, requestId }
  }
  const answer = (
    id: string,
    kind: "question" | "permission",
    given: string | boolean,
    by: string,
  ) => {
    if (interactions.statusOf(id) === undefined)
      return refuse("not-found", `there is no ${kind} ${id}`)
    if (!interactions.answer(id, kind, given, by)) {
      return refuse("too-late", `the ${kind} is answered already, or nobody waits for it any more`)
    }
    say(answerFrame(id, kind, given))
    return { ok: true } as const
  }
  return {
    prompt: ({ type, clientRequestId, ...rest }) => {
      if (hasEnded(state)) return refuse("too-late", "the session has ended")
      const channel = channelKey(rest)
      const prompt: Prompt = { type, messageId: ports.newId(), ...rest, ...channelAddress(channel) }
      if (rest.attachments?.some(({ url }) => url.length > MOST_TEXT && !isBase64(url))) {
        return refuse("bad-request", "attachments: a data URL of this size must be base64")
      }
      const waiting = ports.sql.all("SELECT 1 FROM queue WHERE status = 'queued'").length
      if (waiting >= MOST_QUEUED) return refuse("too-many", `${waiting} prompts wait already`)
      const added = queue.add(prompt, channel, clientRequestId)
      if (!added) return refuse("conflict", "this clientRequestId stands for another prompt")
      return { ok: true, messageId: added.id, fresh: added.fresh }
    },
    abort: (message) => {
      const channel = hasChannel(message) ? channelKey(message) : undefined
      const withdrawn = message.queued === true ? withdrawAll(parts, channel) : 0
      return { ok: true, stopping: stopPrompts(parts, channel), withdrawn }
    },
    answer: ({ id, answer: given }, by) => answer(id, "question", given, by),
    permission: ({ id, reply }, by) => answer(id, "permission", reply, by),
    withdraw: ({ id }) => {
      if (!queue.find(id)) return refuse("not-found", `there is no prompt ${id}`)
      return queue.withdraw(id)
        ? { ok: true }
        : refuse("too-late", "the prompt is begun or over already")
    },
    promote: ({ id }, by) => {
      const row = queue.find(id)
      if (!row) return refuse("not-found", `there is no prompt ${id}`)
      if (row.status !== "queued") return refuse("too-late", "the prompt is begun or over already")
      const question = interactions.openQuestion(row.channel)
      if (question === undefined)
        return queue.promote(id) ? { ok: true } : refuse("too-late", "too late")
      // The agent waits for an answer, and this is what the person wants it to hear first.
      const prompt = queue.promptOf(row)
      queue.finish(id, "done")
      showPrompt(parts, prompt, row.channel)
      return { ...answer(question, "question", prompt.content, by), answered: question }
    },
    revert: ({ messageId }) => {
      if (!hasRunner()) return refuse("no-runner", "the runner is not connected")
      const known = ports.sql.all("SELECT 1 FROM messages WHERE id = ?", messageId)
      if (known.length === 0) return refuse("not-found", `there is no message ${messageId}`)
      say({ type: "revert", messageId })
      return { ok: true }
    },
    command: ({ command, args }) =>
      ask("command", (requestId) => ({ type: "opencode-command", command, args, requestId })),
    diff: () => ask("diff", (requestId) => ({ type: "diff", requestId })),
    review: () => ask("review", (requestId) => ({ type: "review", requestId })),
    "new-session": (message) =>
      ask("new-session", (requestId) => ({
        type: "new-session",
        ...channelAddress(channelKey(message)),
        requestId,
      })),
    config: ({ config }) => {
      const known = JSON.parse(state.kept("config") ?? "{}") as object
      const all = JSON.stringify({ ...known, ...config })
      if (all.length > MOST_TEXT) {
        return refuse("bad-request", `config: at most ${MOST_TEXT} characters are kept`)
      }
      state.keep("config", all)
      if (hasRunner()) say({ type: "opencode-config", config })
      return { ok: true }
    },
    "delete-tunnel": ({ name }) => {
      if (!hasRunner()) return refuse("no-runner", "the runner is not connected")
      say({ type: "tunnel-delete", name })
      return { ok: true }
    },
    history: ({ before, limit = 50 }) => {
      return { ok: true, ...readMessages(ports.sql, limit, before) }
    },
  }
}

const fromJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isPing = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "type" in value && value.type === "ping"

const idOf = (value: unknown): string | undefined =>
  typeof value === "object" &&
  value !== null &&
  "clientRequestId" in value &&
  typeof value.clientRequestId === "string"
    ? value.clientRequestId
    : undefined

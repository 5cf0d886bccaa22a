/** One session: the runner's side, the clients' side and the deadlines, over the host's ports. */
import { closeReasons } from "../../wire/close-reasons.ts"
import type { Inbound } from "../../wire/frames/index.ts"
import { type ClientSide, createClientSide } from "./client-verbs.ts"
import { readMessages, readSnapshot } from "./client-views.ts"
import { keepArtifact } from "./artifacts.ts"
import { cancelRun, takeOrder } from "./workflow-orders.ts"
import { createSessionContext, type SessionContext } from "./session-context.ts"
import type { Ports } from "./ports.ts"
import { dispatch, giveUp, reconcile, stopPrompts, withdrawAll } from "./prompt-lifecycle.ts"
import type { Prompt } from "./queue.ts"
import { createRunnerSide, type RunnerSide } from "./runner-side.ts"
import { migrate } from "./schema.ts"
import { sameText } from "../../lib/constant-time.ts"
import { hasEnded } from "./named-values.ts"

export interface Session {
  readonly runner: RunnerSide
  readonly clients: ClientSide
  /** Only the hash of the runner's token is kept. A new one makes a new generation. */
  readonly setRunnerToken: (hash: string) => void
  /** The HTTP status that a runner with this token's hash is answered with, or nothing when it may come in. */
  readonly refusal: (hash: string) => 401 | 410 | 503 | undefined
  /** Merged over what is there; the runner is told when it connects. */
  readonly configure: (config: object) => void
  readonly setTitle: (title: string) => void
  /** A prompt that comes from elsewhere than a client: another session, a trigger. `id` makes it one prompt. */
  readonly prompt: (
    prompt: Prompt,
    channel: string,
    options?: { first?: boolean; interrupt?: boolean },
  ) => void
  /** A workflow that the runner is to run: it is told when it is there, and again until it has answered. */
  readonly order: (id: string, frame: Inbound<"workflow-execute">) => void
  /** Stops a run for good: the runner is told until it has answered, and no order for it is taken any more. */
  readonly cancel: (executionId: string) => void
  /** A line in the conversation that nobody is to answer; said again under its id it stays one. */
  readonly note: (line: Note) => void
  readonly config: () => object
  /** Goes up with every new token: keys of an earlier sandbox are of no use to a later one. */
  readonly generation: () => number
  readonly channels: () => readonly string[]
  /** Ends the session: the runner is told to stop and is not let in again. */
  readonly terminate: (why: string) => void
  /** The host's alarm has rung. */
  readonly alarm: () => void
  /** Connections that the host still has after its memory was lost; a runner that is not among them is away. */
  readonly woke: (connections: readonly string[]) => void
  readonly snapshot: () => Record<string, unknown>
  readonly recent: (limit: number) => ReturnType<typeof readMessages>["messages"]
  readonly status: () => SessionStatus
}

export interface Note {
  readonly id: string
  readonly role: "user" | "assistant" | "system"
  readonly content: string
  readonly channel?: string
  readonly image?: { readonly base64: string; readonly mime: string }
}

export interface SessionStatus {
  readonly status: "running" | "ended"
  readonly connected: boolean
  readonly working: number
  readonly queued: number
  readonly title: string | undefined
}

export const createSession = (ports: Ports): Session => {
  migrate(ports.sql)
  const parts = createSessionContext(ports)
  const { state, queue, link, commit } = parts
  const runner = createRunnerSide(parts)
  const ended = () => hasEnded(state)

  return {
    runner,
    clients: createClientSide(parts, runner.flush),
    setRunnerToken: (hash) =>
      commit(() => {
        state.keep("runner-token", hash)
        state.keep("generation", String(Number(state.kept("generation") ?? 0) + 1))
      }),
    refusal: (hash) => {
      const expected = state.kept("runner-token")
      if (expected === undefined) return 503
      if (!sameText(hash, expected)) return 401
      return ended() ? 410 : undefined
    },
    configure: (config) =>
      commit(() => {
        const known = JSON.parse(state.kept("config") ?? "{}") as object
        state.keep("config", JSON.stringify({ ...known, ...config }))
      }),
    setTitle: (title) => commit(() => state.show("title", title)),
    prompt: (prompt, channel, { first = false, interrupt = false } = {}) =>
      commit(() => {
        if (queue.find(prompt.messageId)) return
        queue.add(prompt, channel, undefined, first || interrupt)
        if (interrupt) stopPrompts(parts, channel)
        dispatch(parts)
      }),
    order: (id, frame) =>
      commit(() => {
        takeOrder(parts, id, frame)
        dispatch(parts)
      }),
    cancel: (executionId) => commit(() => cancelRun(parts, executionId)),
    note: ({ id, role, content, channel = "web:default", image }) =>
      commit(() => {
        const artifact = image && keepArtifact(parts, image.mime, image.base64, content, id)
        const extra = artifact === undefined ? {} : { extra: { artifact } }
        parts.messages.say(role, { channel, content, ...extra }, { id })
      }),
    generation: () => Number(state.kept("generation") ?? 0),
    config: () => JSON.parse(state.kept("config") ?? "{}") as object,
    channels: () =>
      ports.sql
        .all<{ key: string }>(
          "SELECT key FROM channels UNION SELECT channel FROM queue UNION SELECT channel FROM messages",
        )
        .map(({ key }) => key),
    terminate: (why) => {
      const { connection } = link.now()
      commit(() => {
        state.show("session", { status: "ended", why })
        withdrawAll(parts, undefined)
        for (const { id } of queue.processing()) giveUp(parts, id, "session")
        parts.say({ type: "stop" })
      })
      if (connection !== null) ports.sockets.close(connection, 1000, closeReasons.terminated)
    },
    alarm: () => commit(() => meetDeadlines(parts)),
    woke: (connections) => {
      const { connection } = link.now()
      if (connection !== null && !connections.includes(connection)) runner.closed(connection)
      parts.attachments.sweep()
      parts.deadlines.arm()
    },
    snapshot: () => {
      runner.flush()
      return readSnapshot(ports.sql, parts.changes.rev())
    },
    recent: (limit) => {
      runner.flush()
      return readMessages(ports.sql, limit).messages
    },
    status: () => ({
      status: ended() ? "ended" : "running",
      connected: link.now().connection !== null,
      working: queue.processing().length,
      queued: ports.sql.all("SELECT 1 FROM queue WHERE status = 'queued'").length,
      title: state.shown("title") as string | undefined,
    }),
  }
}

const meetDeadlines = (parts: SessionContext): void => {
  for (const { kind, ref } of parts.deadlines.takeDue(parts.ports.now())) {
    switch (kind) {
      case "stop":
      case "prompt":
        giveUp(parts, ref, kind)
        break
      case "barrier":
        if (parts.link.now().phase === "reconciling") reconcile(parts)
        break
      case "ask":
        parts.ports.sql.run(
          "UPDATE asks SET status = 'expired' WHERE id = ? AND status = 'open'",
          ref,
        )
        parts.changes.note("ask", ref)
        break
    }
  }
  dispatch(parts)
}

/** What each frame of the runner changes. The map is total: a frame without an entry does not compile. */
import type { Outbound, ReportFrame } from "../../wire/frames/index.ts"
import { keepArtifact } from "./artifacts.ts"
import { channelKey } from "./channel.ts"
import { answerOrders, confirmCancel, WORKFLOW_CHANNEL } from "./workflow-orders.ts"
import type { SessionContext } from "./session-context.ts"
import { endPrompt, reconcile, withdrawAll } from "./prompt-lifecycle.ts"

/** Frames about the link itself, and words, are dealt with where they arrive. */
type Elsewhere = "hello" | "ping" | "message.part.text-delta" | "message.part.reasoning-delta"
type IngestedType = Exclude<ReportFrame["type"], Elsewhere>
type Ingest = { readonly [Type in IngestedType]: (frame: Outbound<Type>) => void }

/** Carries out one frame, inside its transaction. */
export const createIngest = (parts: SessionContext): ((frame: Outbound<IngestedType>) => void) => {
  const table = tableOf(parts)
  return (frame) => {
    const run: (frame: never) => void = table[frame.type]
    run(frame as never)
  }
}

/** A tool may print without end; a client that wants it all has the sandbox. */
const RESULT_CHARACTERS = 100_000
/** The answer to a client's question is one row, and a character may take three bytes of its 2 MB. */
const ANSWER_CHARACTERS = 500_000

const tableOf = (parts: SessionContext): Ingest => {
  const { messages, queue, interactions, state, changes, link, ports } = parts
  const { sql } = ports
  const begin = (frame: Outbound<"message.create">) =>
    messages.begin(frame.turnId, frame.messageId, channelKey(frame))
  const answered = (id: string, kind: string, result: unknown) => {
    const text = JSON.stringify(result)
    const row = sql.all(
      "UPDATE asks SET status = 'answered', result = ? WHERE id = ? AND status = 'open' RETURNING id",
      text.length <= ANSWER_CHARACTERS
        ? text
        : JSON.stringify({ error: `the answer is too long to be kept: ${text.length} characters` }),
      id,
    )
    parts.deadlines.clear("ask", id)
    if (row.length > 0) changes.note("ask", id)
    else ports.report("hub.unasked-answer", { kind })
  }
  return {
    "message.create": begin,
    "message.part.tool-update": (frame) => {
      messages.begin(frame.turnId, frame.messageId, channelKey(frame))
      if (!messages.isStreaming(frame.turnId)) return
      const { callId, toolName, status, error, childSessionId } = frame
      const data = {
        callId,
        toolName,
        status,
        args: short(frame.args),
        result: short(frame.result),
        error,
        childSessionId,
      }
      messages.putPart(
        frame.turnId,
        childSessionId ? `${childSessionId}/${callId}` : callId,
        "tool",
        data,
      )
    },
    "message.finalize": (frame) => {
      const { turnId, messageId, reason, error, finalText } = frame
      messages.begin(turnId, messageId, channelKey(frame))
      const status = ({ end_turn: "done", error: "error", canceled: "canceled" } as const)[reason]
      messages.end(turnId, status, error, finalText)
      if (messageId !== undefined && reason === "error")
        queue.setError(messageId, error ?? "failed")
      parts.words.close(turnId)
    },
    todo: (frame) => {
      messages.begin(frame.turnId, frame.messageId, channelKey(frame))
      messages.putPart(frame.turnId, "todo", "todo", { items: frame.items })
    },
    usage: ({ turnId, model, input, output, reasoning, cacheRead, cacheWrite, cost }) => {
      sql.run(
        "INSERT INTO usage (message_id, model, input, output, reasoning, cache_read, cache_write, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        turnId,
        model,
        input,
        output,
        reasoning,
        cacheRead,
        cacheWrite,
        cost ?? null,
      )
      changes.note("usage", "")
    },
    retry: ({ turnId, attempt, next, message }) =>
      state.show(`retry:${turnId}`, { attempt, next, message }),
    compacted: ({ turnId }) => messages.putPart(turnId, "compacted", "compacted", {}),
    permission: (frame) =>
      interactions.ask({
        id: frame.permissionId,
        kind: "permission",
        channel: channelKey(frame),
        promptId: frame.messageId,
        payload: { title: frame.title, patterns: frame.patterns },
      }),
    question: (frame) =>
      interactions.ask({
        id: frame.questionId,
        kind: "question",
        channel: channelKey(frame),
        promptId: frame.messageId,
        payload: { text: frame.text, ...(frame.options && { options: frame.options }) },
      }),
    agentStatus: (frame) => {
      const { status, detail, messageId } = frame
      const said = { status, ...(detail !== undefined && { detail }) }
      if (messageId !== undefined) state.show(`agent:${channelKey(frame)}`, said)
      // Idle is a level that the runner says when it can take work, of a channel too; starting up takes it back.
      if (messageId === undefined || status === "idle") {
        state.show("agent", said)
        link.change({ ready: status === "idle" })
      }
    },
    "model-switched": (frame) =>
      state.show(`model:${channelKey(frame)}`, {
        from: frame.fromModel,
        to: frame.toModel,
        reason: frame.reason,
      }),
    error: (frame) => {
      queue.setError(frame.messageId, frame.error)
      messages.say(
        "system",
        { channel: channelKey(frame), content: "", error: frame.error },
        { id: `${frame.messageId}/error`, promptId: frame.messageId },
      )
    },
    complete: (frame) => {
      const { messageId } = frame
      if (messageId !== undefined) return endPrompt(parts, messageId)
      // A runner that names no prompt means the one its channel works on.
      for (const row of queue.processing(channelKey(frame))) endPrompt(parts, row.id)
    },
    aborted: (frame) => {
      const { phase, barrier } = link.now()
      if (phase === "reconciling" && frame.channelId === barrier) reconcile(parts)
      if (frame.channelType === WORKFLOW_CHANNEL && frame.channelId !== undefined)
        confirmCancel(parts, frame.channelId)
    },
    "workflow-chat-message": (frame) =>
      messages.say(frame.role, {
        channel: channelKey(frame),
        content: frame.content,
        ...(frame.parts !== undefined && { extra: frame.parts }),
      }),
    screenshot: ({ data, description, mimeType = "image/png" }) =>
      void keepArtifact(parts, mimeType, data, description, ports.newId()),
    models: ({ models }) => state.show("models", models),
    tunnels: ({ tunnels }) => state.show("tunnels", tunnels),
    "git-state": ({ branch, baseBranch, commitCount }) =>
      state.show("git", { branch, baseBranch, commitCount }),
    "files-changed": ({ files }) => state.show("files", files),
    "pr-created": ({ number, title, url, status }) =>
      state.show(`pr:${number}`, { number, title, url, status }),
    "child-session": ({ childSessionId, title }) =>
      state.show(`child:${childSessionId}`, { childSessionId, title }),
    title: ({ title }) => state.show("title", title),
    "channel-session-created": ({ channelKey: key, opencodeSessionId }) =>
      sql.run(
        "INSERT OR REPLACE INTO channels (key, agent_session) VALUES (?, ?)",
        key,
        opencodeSessionId,
      ),
    "audio-transcript": ({ messageId, transcript }) =>
      messages.putPart(messageId, "transcript", "transcript", { transcript }),
    "self-terminate": () => {
      state.show("session", { status: "ended" })
      withdrawAll(parts, undefined)
      ports.ended()
    },
    reverted: ({ messageIds, error }) => {
      messages.remove(messageIds)
      if (error !== undefined)
        messages.say("system", {
          channel: "web:default",
          content: "",
          error: `not undone: ${error}`,
        })
    },
    diff: ({ requestId, data, error }) => answered(requestId, "diff", { ...data, error }),
    "review-result": ({ requestId, data, diffFiles, error }) =>
      answered(requestId, "review", { data, diffFiles, error }),
    "command-result": ({ requestId, command, result, error }) =>
      answered(requestId, "command", { command, result: short(result), error }),
    "session-reset": (frame) => {
      sql.run("DELETE FROM channels WHERE key = ?", channelKey(frame))
      answered(frame.requestId, "new-session", { channel: channelKey(frame) })
    },
    "workflow-execution-result": ({ executionId, envelope }) => {
      answerOrders(parts, executionId)
      ports.executed(executionId, envelope)
    },
    "opencode-config-applied": ({ success, restarted, error }) =>
      state.show("config-applied", { success, restarted, error }),
  }
}

const short = (value: unknown): unknown => {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "")
  if (text.length <= RESULT_CHARACTERS) return value
  return `${text.slice(0, RESULT_CHARACTERS).toWellFormed()}\n[${text.length - RESULT_CHARACTERS} characters more]`
}

/** What each frame of the runner changes in the session. The table is total: a frame without a handler does not compile. */
import { addNote } from "./notes.ts"
import { readWorkStatus } from "./activity.ts"
import { closeApproval, closeApprovals } from "./approvals.ts"
import { z } from "zod"
import { providerModels } from "../../wire/frames/shapes.ts"
import type { Outbound, ReportFrame } from "../../wire/frames/index.ts"
import type { Option } from "../../wire/clients/conversation.ts"
import { USED_AT } from "./activity.ts"
import { replyTo, storeArtifact } from "./artifacts.ts"
import { channelKey, MAIN_CHANNEL } from "../../wire/channel.ts"
import {
  completeOrders,
  confirmCancel,
  markDelivered,
  WORKFLOW_CHANNEL,
} from "./workflow-orders.ts"
import type { SessionContext } from "./session-context.ts"
import { endPrompt, reconcile, retryState, withdrawAll } from "./prompt-lifecycle.ts"
import { hasEnded, setPull } from "./named-values.ts"
import { addCount } from "./counts.ts"
import { publishModel } from "./prompt-models.ts"
import { hasRow, pathRow, readRow } from "./rows.ts"
import { checkBudget } from "./budget.ts"
import { storeDisplayFiles } from "./display-files.ts"
import { permissionText, questionText } from "./chat-questions.ts"

/** `runner-side.ts` handles these itself. */
type HandledElsewhere =
  | "hello"
  | "ping"
  | "message.part.text-delta"
  | "message.part.reasoning-delta"
type IngestedType = Exclude<ReportFrame["type"], HandledElsewhere>
type IngestTable = { readonly [Type in IngestedType]: (frame: Outbound<Type>) => void }

/** Returns the handler of one frame. It must run inside the frame's transaction. */
export const createIngest = (
  context: SessionContext,
): ((frame: Outbound<IngestedType>) => void) => {
  const table = tableOf(context)
  return (frame) => {
    const run: (frame: never) => void = table[frame.type]
    run(frame as never)
  }
}

/** Tool output is unbounded: the conversation keeps the start of it, the sandbox has the rest. */
const RESULT_CHARACTERS = 100_000
/** A result for a client is stored in one row of at most 2 MB, and a character may take three bytes. */
const ANSWER_CHARACTERS = 500_000

const FILES_KEPT =
  "Undone. The changes of files stay: the agent restores files in a git repository only."

const tableOf = (context: SessionContext): IngestTable => {
  const { messages, queue, interactions, values, changes, runnerConnection, ports } = context
  const { sql } = ports
  /** The runner's result of a client's `command`, `diff`, `review` or `new-session`. */
  const answerClient = (id: string, kind: string, result: unknown) => {
    const text = JSON.stringify(result)
    const wasOpen = hasRow(
      sql,
      "UPDATE asks SET status = 'answered', result = ? WHERE id = ? AND status = 'open' RETURNING id",
      text.length <= ANSWER_CHARACTERS
        ? text
        : JSON.stringify({ error: `the result is too long to store: ${text.length} characters` }),
      id,
    )
    context.deadlines.clear("ask", id)
    if (wasOpen) changes.record("ask", id)
    else ports.report("hub.unexpected-result", { kind })
  }
  /** The files that the client asked for. A diff that is too long to store is left out of its file. */
  const filesOf = (requestId: string, files: Outbound<"diff">["data"]["files"]) => {
    const path = readRow(sql, pathRow, "SELECT path FROM ask_paths WHERE id = ?", requestId)?.path
    sql.run("DELETE FROM ask_paths WHERE id = ?", requestId)
    const wanted = path === undefined ? files : files.filter((file) => file.path === path)
    if (path !== undefined || JSON.stringify(wanted).length < ANSWER_CHARACTERS - 1000)
      return { files: wanted }
    return {
      files: wanted.map(({ diff: _diff, ...file }) => file),
      omitted: true,
      error: "the diff is too long to store: ask for each file with `path`",
    }
  }
  return {
    "message.create": (frame) => messages.begin(frame.turnId, frame.messageId, channelKey(frame)),
    "message.part.tool-update": (frame) => {
      messages.begin(frame.turnId, frame.messageId, channelKey(frame))
      if (!messages.isStreaming(frame.turnId)) return
      const { callId, toolName, status, error, childSessionId } = frame
      const id = toolPartId(callId, childSessionId)
      const { startedAt, endedAt, exit, diff, files, child, agent } = frame
      const data = {
        callId,
        toolName,
        status,
        args: truncate(frame.args),
        result: truncate(frame.result),
        error,
        childSessionId,
        startedAt,
        endedAt,
        exit,
        diff,
        files,
        child,
        agent,
      }
      if (status === "completed") messages.clearOutput(frame.turnId, id)
      messages.setPart(frame.turnId, id, "tool", data)
    },
    "message.part.tool-output": ({ turnId, callId, childSessionId, offset, delta }) =>
      messages.addOutput(turnId, toolPartId(callId, childSessionId), offset, delta),
    "message.finalize": (frame) => {
      const { turnId, messageId, reason, error, finalText } = frame
      messages.begin(turnId, messageId, channelKey(frame))
      const status = ({ end_turn: "done", error: "error", canceled: "canceled" } as const)[reason]
      const stopped = reason === "canceled" && messageId !== undefined
      const why = stopped ? (queue.find(messageId)?.error ?? undefined) : undefined
      messages.end(turnId, status, error ?? why, finalText)
      values.removePublic(retryState(turnId))
      if (messageId !== undefined && reason === "end_turn")
        context.chatSends.endPrompt(messageId, channelKey(frame), { text: finalText ?? "" })
      if (messageId !== undefined && reason === "error")
        queue.setError(messageId, error ?? "failed")
      context.deltas.close(turnId)
    },
    todo: (frame) => {
      messages.begin(frame.turnId, frame.messageId, channelKey(frame))
      messages.setPart(frame.turnId, "todo", "todo", { items: frame.items })
    },
    usage: (frame) => {
      const { turnId, model, input, output, reasoning, cacheRead, cacheWrite, cost } = frame
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
      messages.touch(turnId)
      changes.record("usage", "")
      // A sub-agent has a context of its own.
      if (frame.childSessionId === undefined) {
        const used = input + output + reasoning + cacheRead + cacheWrite
        const limit = contextLimit(values.getPublic("models"), model)
        values.setPublic(`context:${channelKey(frame)}`, {
          used,
          ...(limit !== undefined && { limit }),
        })
      }
      checkBudget(context)
    },
    retry: ({ turnId, attempt, next, message, droppedParts = [] }) => {
      if (!messages.isStreaming(turnId)) return
      messages.removeParts(turnId, droppedParts)
      context.deltas.drop(turnId, droppedParts)
      values.setPublic(retryState(turnId), { attempt, next, message })
    },
    compacted: ({ turnId }) => messages.setPart(turnId, "compacted", "compacted", {}),
    permission: (frame) => {
      const { permissionId: id, title, patterns } = frame
      if (!interactions.exists(id)) {
        const text = permissionText(title, patterns)
        context.chatSends.add({ id: `ask-${id}`, channel: channelKey(frame), text })
        if (frame.waitMs !== undefined)
          context.deadlines.set("interaction", id, ports.now() + frame.waitMs)
      }
      interactions.open({
        id,
        kind: "permission",
        channel: channelKey(frame),
        promptId: frame.messageId,
        payload: {
          title,
          patterns,
          ...(frame.tool !== undefined && { tool: frame.tool }),
          ...askerOf(frame),
        },
      })
    },
    question: (frame) => {
      if (!interactions.exists(frame.questionId)) tellAsked(context, frame)
      interactions.open({
        id: frame.questionId,
        kind: "question",
        channel: channelKey(frame),
        promptId: frame.messageId,
        payload: {
          text: frame.text,
          ...optionsOf(frame),
          ...(frame.multiple && { multiple: true }),
          ...askerOf(frame),
        },
      })
    },
    agentStatus: (frame) => {
      const { status, detail, messageId, ready = status === "idle" } = frame
      const value = { status, ...(detail !== undefined && { detail }) }
      if (messageId !== undefined) values.setPublic(`agent:${channelKey(frame)}`, value)
      // A runner that does not send `ready` reports `idle` when it can take work, and another status while it starts.
      if (messageId === undefined || status === "idle") {
        runnerConnection.update({ ready })
      }
      values.setPublic("agent", status === "idle" ? (readWorkStatus(context) ?? value) : value)
    },
    "model-switched": (frame) =>
      values.setPublic(`model:${channelKey(frame)}`, {
        from: frame.fromModel,
        to: frame.toModel,
        reason: frame.reason,
      }),
    error: (frame) => {
      queue.setError(frame.messageId, frame.error)
      messages.add(
        "system",
        { channel: channelKey(frame), content: "", error: frame.error },
        { id: `${frame.messageId}/error`, promptId: frame.messageId },
      )
    },
    complete: (frame) => {
      const { messageId } = frame
      if (messageId !== undefined) return endPrompt(context, messageId)
      // Without a prompt's id, it is the running prompt of the channel.
      for (const row of queue.processing(channelKey(frame))) endPrompt(context, row.id)
    },
    aborted: (frame) => {
      const { phase, barrier } = runnerConnection.state()
      if (phase === "reconciling" && frame.channelId === barrier) reconcile(context)
      if (frame.channelType === WORKFLOW_CHANNEL && frame.channelId !== undefined)
        confirmCancel(context, frame.channelId)
    },
    "workflow-chat-message": (frame) =>
      messages.add(frame.role, {
        channel: channelKey(frame),
        content: frame.content,
        ...(frame.parts !== undefined && { extra: frame.parts }),
      }),
    screenshot: ({ data, description, mimeType = "image/png", messageId, callId }) =>
      void storeArtifact(context, {
        id: ports.newId(),
        mime: mimeType,
        base64: data,
        description,
        messageId: replyTo(context, messageId),
        callId,
      }),
    artifacts: (frame) => storeDisplayFiles(context, frame),
    models: ({ models, default: name }) => {
      values.setPublic("models", models)
      publishModel(values, name)
    },
    services: ({ type: _type, seq: _seq, ...services }) => values.setPublic("services", services),
    tunnels: ({ tunnels }) => values.setPublic("tunnels", tunnels),
    "git-state": ({ type: _type, seq: _seq, ...state }) => values.setPublic("git", state),
    "files-changed": ({ files }) => values.setPublic("files", files),
    "pr-created": (frame) => setPull(values, frame),
    "child-session": ({ childSessionId, title }) => {
      // A report of the child may have arrived before: its status stays.
      const name = `child:${childSessionId}`
      if (values.getPublic(name) === undefined)
        values.setPublic(name, { childSessionId, title, status: "running" })
    },
    title: ({ title }) => {
      // A title that a person has given stays.
      if (values.getPrivate("renamed") === undefined) values.setPublic("title", title)
    },
    "channel-session-created": ({ channelKey: key, opencodeSessionId }) => {
      const isOther = "SELECT 1 FROM channels WHERE key = ? AND agent_session <> ?"
      if (hasRow(sql, isOther, key, opencodeSessionId)) addCount(values, "replaced")
      sql.run(
        "INSERT OR REPLACE INTO channels (key, agent_session) VALUES (?, ?)",
        key,
        opencodeSessionId,
      )
    },
    // One part for each text: a prompt may have several voice messages, and a frame may arrive again.
    "audio-transcript": ({ messageId, transcript }) =>
      messages.setPart(messageId, `transcript-${ports.digest(transcript)}`, "transcript", {
        transcript,
      }),
    "sandbox-used": () => values.setPrivate(USED_AT, String(ports.now())),
    "self-terminate": () => {
      if (ports.staysOpen?.() === true) {
        addNote(context, { id: ports.newId(), role: "system", content: COMPLETED })
        closeApprovals(context)
        withdrawAll(context, undefined)
        return ports.ended()
      }
      if (!hasEnded(values)) context.childReports.ended("It has completed its session.", false)
      values.setPublic("session", { status: "ended" })
      closeApprovals(context)
      withdrawAll(context, undefined)
      ports.ended()
    },
    reverted: ({ messageIds, error, filesKept, ...rest }) => {
      messages.remove(messageIds)
      const channel = channelKey(rest)
      if (error !== undefined)
        messages.add("system", { channel, content: "", error: `not undone: ${error}` })
      else if (filesKept === true && messageIds.length > 0)
        messages.add("system", { channel, content: FILES_KEPT })
    },
    diff: ({ requestId, data, error }) =>
      answerClient(requestId, "diff", {
        ...filesOf(requestId, data.files),
        ...(error !== undefined && { error }),
      }),
    "review-result": ({ requestId, data, diffFiles, error }) =>
      answerClient(requestId, "review", { data, diffFiles, error }),
    "command-result": ({ requestId, command, result, error }) =>
      answerClient(requestId, "command", { command, result: truncate(result), error }),
    "session-reset": (frame) => {
      sql.run("DELETE FROM channels WHERE key = ?", channelKey(frame))
      answerClient(frame.requestId, "new-session", { channel: channelKey(frame) })
    },
    "workflow-accepted": ({ executionId }) => markDelivered(context, executionId),
    "workflow-execution-result": ({ executionId, envelope }) => {
      completeOrders(context, executionId)
      if (!envelope.requiresApproval) closeApproval(context, executionId, undefined)
      context.workflowReports.add(executionId, envelope)
    },
    "opencode-config-applied": ({ success, restarted, error, requestId }) => {
      const before = values.getPublic("config-applied")
      values.setPublic("config-applied", { success, restarted, error, requestId })
      // The runner reports the same problem at every connection.
      if (error !== undefined && (before as { error?: unknown } | undefined)?.error !== error)
        messages.add("system", { channel: MAIN_CHANNEL, content: "", error: `config: ${error}` })
    },
  }
}

/** A question goes to the parent session that waits for the work, and to the chat that the prompt came from. */
const tellAsked = (context: SessionContext, frame: Outbound<"question">): void => {
  const { questionId, text } = frame
  context.childReports.asked(frame.messageId, questionId, text)
  context.chatSends.add({
    id: `ask-${questionId}`,
    channel: channelKey(frame),
    text: questionText(text, frame.options ?? [], frame.multiple === true),
  })
}

const knownModels = z.array(providerModels)

const COMPLETED =
  "The agent has completed its work here. The next prompt starts a new conversation."

/** `name` is `provider/model`; the id of a model may contain a slash too. */
const contextLimit = (models: unknown, name: string): number | undefined =>
  (knownModels.safeParse(models).data ?? [])
    .find(({ provider }) => name.startsWith(`${provider}/`))
    ?.models.find(({ id }) => name.endsWith(`/${id}`))?.context

/** A sub-agent's call may have the same id as one of the turn. */
const toolPartId = (callId: string, childSessionId: string | undefined): string =>
  childSessionId === undefined ? callId : `${childSessionId}/${callId}`

const optionsOf = ({ options, choices }: Outbound<"question">): { options?: readonly Option[] } => {
  const offered = choices ?? options?.map((label) => ({ label }))
  return offered ? { options: offered.map(({ label, ...rest }) => ({ label, ...rest })) } : {}
}

/** The message, tool call and sub-agent that ask. */
const askerOf = ({
  turnId,
  callId,
  childSessionId,
}: Pick<Outbound<"question">, "turnId" | "callId" | "childSessionId">) => ({
  ...(turnId !== undefined && { messageId: turnId }),
  ...(callId !== undefined && { callId }),
  ...(childSessionId !== undefined && { childSessionId }),
})

const truncate = (value: unknown): unknown => {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "")
  if (text.length <= RESULT_CHARACTERS) return value
  return `${text.slice(0, RESULT_CHARACTERS).toWellFormed()}\n[${text.length - RESULT_CHARACTERS} characters more]`
}

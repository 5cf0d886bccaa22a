/** The life cycle of a prompt: dispatched, stopped, requeued after a runner's restart, ended exactly once. */
import { keepPromptImages } from "./artifacts.ts"
import type { MessageEnd } from "./messages.ts"
import type { Prompt } from "./queue.ts"
import { withModels } from "./prompt-models.ts"
import type { SessionContext } from "./session-context.ts"
import type { Answered } from "./interactions.ts"
import { channelAddress } from "../../wire/channel.ts"
import { foreignTurnRow, idRow, readRows } from "./rows.ts"
import { resendOrders, sendOrders, WORKFLOW_CHANNEL } from "./workflow-orders.ts"

/** The runner confirms a stop by ending the turn. Without it, the channel continues after this time. */
const STOP_MS = 15_000
/** Longer than every timeout of the runner: only a runner that hangs exceeds it. */
const PROMPT_MS = 3 * 60 * 60 * 1000

/** Sends the runner the next prompt of every channel that has none running. */
export const dispatch = (context: SessionContext): void => {
  const { runnerConnection, queue, deadlines, ports, budget } = context
  const { phase, ready } = runnerConnection.state()
  if ((phase !== "open" && phase !== "uncounted") || !ready) return
  sendOrders(context)
  for (;;) {
    if (budget.blocks()) return
    const row = queue.claim()
    if (!row) return
    const prompt = queue.promptOf(row)
    addPromptToConversation(context, prompt, row.channel)
    deadlines.set("prompt", row.id, ports.now() + PROMPT_MS)
    context.sendToRunner(withModels(context.values, prompt))
  }
}

/** A prompt enters the conversation when work on it starts, not when it is queued. */
export const addPromptToConversation = (
  context: SessionContext,
  prompt: Prompt,
  channel: string,
): void => {
  const { messageId, content, attachments, authorId, authorName, authorEmail } = prompt
  const author =
    (authorId ?? authorName ?? authorEmail) ? { authorId, authorName, authorEmail } : undefined
  const images = keepPromptImages(context, prompt)
  const files = attachments?.map(({ mime, filename }, place) => ({
    mime,
    filename,
    artifact: images.get(place),
  }))
  context.messages.add(
    "user",
    { channel, content, ...(author && { author }), ...(files && { extra: { files } }) },
    { id: messageId, promptId: messageId },
  )
}

/** The runner reports the end of a prompt. A second report changes nothing. */
export const endPrompt = (context: SessionContext, id: string): void => {
  const row = context.queue.find(id)
  if (!row) return context.interactions.expire(id)
  const status = row.stopping === 1 ? "canceled" : row.error === null ? "done" : "failed"
  if (!context.queue.finish(id, status)) return
  context.childReports.promptEnded(id, status)
  clearPrompt(context, id)
  endMessages(context, id, "error", "the turn ended without a final message")
  if (status === "failed")
    context.chatSends.endPrompt(id, row.channel, { error: row.error ?? "unknown reason" })
}

/** The named value that shows clients a provider's retry. It exists until the turn ends. */
export const retryState = (turnId: string): string => `retry:${turnId}`

const endMessages = (
  { messages, values }: SessionContext,
  promptId: string,
  status: MessageEnd,
  error: string,
): void => {
  for (const id of messages.endAllOf(promptId, status, error)) values.removePublic(retryState(id))
}

const clearPrompt = (context: SessionContext, id: string): void => {
  context.interactions.expire(id)
  context.deadlines.clear("prompt", id)
  context.deadlines.clear("stop", id)
}

/** Asks the runner to stop the running prompts of one channel, or of all; returns how many there are. */
export const stopPrompts = (context: SessionContext, channel: string | undefined): number => {
  const { queue, deadlines, ports } = context
  const running = queue.processing(channel)
  for (const { id } of running) {
    queue.markStopping(id)
    deadlines.set("stop", id, ports.now() + STOP_MS)
  }
  const foreign = running.length > 0 ? 0 : foreignTurns(context, channel).length
  if (running.length + foreign > 0)
    context.sendToRunner({ type: "abort", ...(channel !== undefined && channelAddress(channel)) })
  return running.length + foreign
}

/** The prompts of running turns that another client of OpenCode has started: they are not in the queue. */
const foreignTurns = ({ ports }: SessionContext, channel?: string): readonly string[] =>
  readRows(
    ports.sql,
    foreignTurnRow,
    `SELECT DISTINCT prompt_id AS id, channel FROM messages m WHERE status = 'streaming' AND prompt_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.id = m.prompt_id)`,
  )
    .filter((row) => !row.channel.startsWith(`${WORKFLOW_CHANNEL}:`))
    .flatMap((row) => (channel === undefined || row.channel === channel ? [row.id] : []))

/** Withdraws the queued prompts of one channel, or of all; returns how many there were. */
export const withdrawAll = (
  { ports, queue }: SessionContext,
  channel: string | undefined,
): number => {
  const query = "SELECT id FROM queue WHERE status = 'queued'"
  const rows =
    channel === undefined
      ? readRows(ports.sql, idRow, query)
      : readRows(ports.sql, idRow, `${query} AND channel = ?`, channel)
  return rows.filter(({ id }) => queue.withdraw(id)).length
}

const reasons = {
  stop: "the runner did not confirm the stop",
  prompt: "the runner did not end the turn in time",
  session: "the session has ended",
} as const

/** Ends a running prompt without the runner: its stop timed out, the prompt timed out, or the session has ended. */
export const abandonPrompt = (
  context: SessionContext,
  id: string,
  why: keyof typeof reasons,
): void => {
  const { queue } = context
  const row = queue.find(id)
  if (row?.status !== "processing") return
  // A stop may have a reason of its own, such as a budget that is used up.
  const error = why === "stop" ? (row.error ?? reasons.stop) : reasons[why]
  queue.setError(id, error)
  queue.finish(id, why === "prompt" ? "failed" : "canceled")
  context.childReports.promptEnded(id, why === "prompt" ? "failed" : "canceled")
  endMessages(context, id, why === "prompt" ? "error" : "canceled", error)
  clearPrompt(context, id)
  context.chatSends.endPrompt(id, row.channel, { error })
}

/**
 * Every frame from before the connection has arrived: a prompt that the runner neither runs nor has ended is lost and is
 * queued again. Sends the runner again what it may have missed: orders, stops, answers.
 */
export const reconcile = (context: SessionContext): void => {
  const { runnerConnection, queue, interactions, deadlines } = context
  const { active } = runnerConnection.state()
  runnerConnection.update({ phase: "open", barrier: null })
  deadlines.clear("barrier", "")
  for (const { id, stopping } of queue.requeueLost(active)) {
    const error = stopping === 1 ? "stopped" : "interrupted: the runner was restarted"
    endMessages(context, id, "canceled", error)
    clearPrompt(context, id)
  }
  for (const id of foreignTurns(context).filter((turn) => !active.includes(turn))) {
    endMessages(context, id, "canceled", "interrupted: the runner was restarted")
    interactions.expire(id)
  }
  resendOrders(context)
  for (const { channel, stopping } of queue.processing()) {
    if (stopping === 1) context.sendToRunner({ type: "abort", ...channelAddress(channel) })
  }
  for (const answered of interactions.answeredOf(active)) {
    context.sendToRunner(answerFrame(answered))
  }
}

export const answerFrame = (answered: Answered) =>
  answered.kind === "question"
    ? ({ type: "answer", questionId: answered.id, answer: answered.answer } as const)
    : ({ type: "permission-reply", permissionId: answered.id, reply: answered.answer } as const)

/** The agent waits for an answer on this channel: the prompt of another session is that answer. */
export const answerQuestion = (
  context: SessionContext,
  prompt: Prompt,
  channel: string,
): boolean => {
  const { interactions, queue } = context
  const question = interactions.openQuestion(channel)
  if (question === undefined) return false
  const answered = { id: question, kind: "question", answer: prompt.content } as const
  addPromptToConversation(context, prompt, channel)
  queue.finish(prompt.messageId, "done")
  interactions.answer(answered, prompt.authorName ?? "another session")
  context.sendToRunner(answerFrame(answered))
  return true
}

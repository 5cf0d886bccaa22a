/** A prompt's way: claimed and sent, stopped, lost and found, ended once. */
import type { Prompt } from "./queue.ts"
import type { SessionContext } from "./session-context.ts"
import { channelAddress } from "../../wire/channel.ts"
import type { PermissionReply } from "../../wire/permission.ts"
import { orderAgain, sendOrders } from "./workflow-orders.ts"

/** The runner confirms a stop by the end of the turn; if it does not, the channel goes on without it. */
const STOP_MS = 15_000
/** Later than every budget of the runner: only a runner that is stuck gets here. */
const PROMPT_MS = 3 * 60 * 60 * 1000

/** Hands out whatever may be handed out: every channel's next, until there is none. */
export const dispatch = (parts: SessionContext): void => {
  const { link, queue, deadlines, ports } = parts
  const { phase, ready } = link.now()
  if ((phase !== "open" && phase !== "uncounted") || !ready) return
  sendOrders(parts)
  for (;;) {
    const row = queue.claim()
    if (!row) return
    const prompt = queue.promptOf(row)
    showPrompt(parts, prompt, row.channel)
    deadlines.set("prompt", row.id, ports.now() + PROMPT_MS)
    parts.say(prompt)
  }
}

/** A prompt stands in the conversation from when it is worked on, not from when it was typed. */
export const showPrompt = ({ messages }: SessionContext, prompt: Prompt, channel: string): void => {
  const { messageId, content, attachments, authorId, authorName, authorEmail } = prompt
  const author =
    (authorId ?? authorName ?? authorEmail) ? { authorId, authorName, authorEmail } : undefined
  const files = attachments?.map(({ mime, filename }) => ({ mime, filename }))
  messages.say(
    "user",
    { channel, content, ...(author && { author }), ...(files && { extra: { files } }) },
    { id: messageId, promptId: messageId },
  )
}

/** The one end of a prompt, however it is heard of. */
export const endPrompt = (parts: SessionContext, id: string): void => {
  const row = parts.queue.find(id)
  if (!row) return
  const status = row.stopping === 1 ? "canceled" : row.error === null ? "done" : "failed"
  if (!parts.queue.finish(id, status)) return
  settlePrompt(parts, id)
  parts.messages.endOf(id, "error", "the turn ended without its last word")
}

const settlePrompt = (parts: SessionContext, id: string): void => {
  parts.interactions.expire(id)
  parts.deadlines.clear("prompt", id)
  parts.deadlines.clear("stop", id)
}

/** Asks for the end of what runs, in one channel or in all; tells how many prompts that are. */
export const stopPrompts = (parts: SessionContext, channel: string | undefined): number => {
  const { queue, deadlines, ports } = parts
  const running = queue.processing(channel)
  for (const { id } of running) {
    queue.markStopping(id)
    deadlines.set("stop", id, ports.now() + STOP_MS)
  }
  if (running.length > 0)
    parts.say({ type: "abort", ...(channel !== undefined && channelAddress(channel)) })
  return running.length
}

/** Takes everything out that is not begun, in one channel or in all; tells how many prompts that are. */
export const withdrawAll = (
  { ports, queue }: SessionContext,
  channel: string | undefined,
): number =>
  ports.sql
    .all<{ id: string; channel: string }>("SELECT id, channel FROM queue WHERE status = 'queued'")
    .filter((row) => channel === undefined || row.channel === channel)
    .filter(({ id }) => queue.withdraw(id)).length

const reasons = {
  stop: "the runner did not confirm the stop",
  prompt: "the runner did not end the turn in time",
  session: "the session has ended",
} as const

/** The runner did not confirm a stop, sat on a prompt beyond all budgets, or is not let in again: it is over without it. */
export const giveUp = (parts: SessionContext, id: string, kind: keyof typeof reasons): void => {
  const { queue, messages } = parts
  if (queue.find(id)?.status !== "processing") return
  const why = reasons[kind]
  queue.setError(id, why)
  queue.finish(id, kind === "prompt" ? "failed" : "canceled")
  messages.endOf(id, kind === "prompt" ? "error" : "canceled", why)
  settlePrompt(parts, id)
}

/** All the runner had to tell from before has come: what it neither runs nor has ended is lost, and goes back. */
export const reconcile = (parts: SessionContext): void => {
  const { link, queue, messages, interactions, deadlines } = parts
  const { active } = link.now()
  link.change({ phase: "open", barrier: null })
  deadlines.clear("barrier", "")
  for (const { id, stopping } of queue.requeueLost(active)) {
    const why = stopping === 1 ? "stopped" : "interrupted: the runner was restarted"
    messages.endOf(id, "canceled", why)
    settlePrompt(parts, id)
  }
  orderAgain(parts)
  for (const { channel, stopping } of queue.processing()) {
    if (stopping === 1) parts.say({ type: "abort", ...channelAddress(channel) })
  }
  for (const { id, kind, answer } of interactions.answeredOf(active)) {
    parts.say(answerFrame(id, kind, JSON.parse(answer)))
  }
}

export const answerFrame = (id: string, kind: string, answer: unknown) =>
  kind === "question"
    ? ({ type: "answer", questionId: id, answer: answer as string | boolean } as const)
    : ({
        type: "permission-reply",
        permissionId: id,
        reply: answer as PermissionReply,
      } as const)

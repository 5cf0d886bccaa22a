/** Converts a scripted reply to the deltas of the chat-completions format and its end. */
import type { AbnormalEnd, StreamedReply, ToolCall, Usage } from "./reply.ts"

interface ToolCallDelta {
  readonly index: number
  readonly id?: string
  readonly type?: "function"
  readonly function: { readonly name?: string; readonly arguments: string }
}

export interface Delta {
  readonly content?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ToolCallDelta[]
}

export interface TimedDelta {
  readonly delayMs: number
  readonly until?: Promise<unknown>
  readonly delta: Delta
}

interface Finish {
  readonly type: "finish"
  readonly reason: string
  readonly usage: Usage | undefined
}

export interface ReplyScript {
  readonly deltas: readonly TimedDelta[]
  readonly end: AbnormalEnd | Finish
}

/** `callId` makes the tool call ids of this reply unique. */
export function replyScript(reply: StreamedReply, callId: string): ReplyScript {
  const deltas: TimedDelta[] = []
  let calls = 0
  let reason: string | undefined
  let usage: Usage | undefined
  for (const step of reply) {
    switch (step.type) {
      case "text":
      case "reasoning": {
        const field = step.type === "text" ? "content" : "reasoning_content"
        for (const piece of splitText(step.text, step.chunks))
          deltas.push({ delayMs: step.delayMs, delta: { [field]: piece } })
        break
      }
      case "tools":
        for (const call of step.calls) {
          deltas.push(...callDeltas(call, calls, `call_${callId}_${calls}`))
          calls += 1
        }
        break
      case "finish":
        reason = step.reason
        break
      case "usage":
        usage = step.usage
        break
      case "wait":
        deltas.push({ delayMs: 0, until: step.until, delta: {} })
        break
      default:
        return { deltas, end: step }
    }
  }
  return {
    deltas,
    end: { type: "finish", reason: reason ?? (calls > 0 ? "tool_calls" : "stop"), usage },
  }
}

/** Like real providers: the name first, then the arguments in pieces. */
function callDeltas({ name, args }: ToolCall, index: number, id: string): TimedDelta[] {
  const json = typeof args === "string" ? args : JSON.stringify(args)
  const opening: ToolCallDelta = { index, id, type: "function", function: { name, arguments: "" } }
  const pieces = splitText(json, 2).map((piece) => ({ index, function: { arguments: piece } }))
  return [opening, ...pieces].map((call) => ({ delayMs: 0, delta: { tool_calls: [call] } }))
}

/**
 * Splits into at most `chunks` non-empty pieces of about equal length.
 * No piece ends inside a surrogate pair, because half a pair cannot be sent as UTF-8.
 */
export function splitText(text: string, chunks: number): string[] {
  const pieces: string[] = []
  let start = 0
  for (let n = 1; n <= chunks; n++) {
    let end = Math.round((text.length * n) / chunks)
    if (isInsidePair(text, end)) end += 1
    if (end <= start) continue
    pieces.push(text.slice(start, end))
    start = end
  }
  return pieces
}

const isInsidePair = (text: string, at: number): boolean =>
  /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(text.slice(Math.max(at - 1, 0), at + 1))

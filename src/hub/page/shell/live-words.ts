/** What a screen reader hears of the agent's work: beginnings and ends, questions and failures; never the streamed words. Pure. */
import type { Interaction } from "../../../wire/clients/conversation.ts"
import { words } from "../words.ts"

/** What is known now. */
export interface Heard {
  readonly now: number
  readonly isWorking: boolean
  readonly isThinking: boolean
  /** The last tool that failed in the running turn. */
  readonly failed?: { readonly id: string; readonly subject: string } | undefined
  /** The first open question or permission. */
  readonly asked?:
    | { readonly id: string; readonly kind: Interaction["kind"]; readonly text: string }
    | undefined
  /** How the last reply ended; read when the work is over. */
  readonly reply?: { readonly text: string; readonly error?: string | undefined } | undefined
}

export interface LiveState {
  readonly isWorking: boolean
  readonly failed: string
  readonly asked: string
  /** When "Thinking" was said last. */
  readonly thoughtAt: number
}

export interface Said {
  readonly polite?: string
  readonly assertive?: string
}

export const initialLive: LiveState = {
  isWorking: false,
  failed: "",
  asked: "",
  thoughtAt: Number.NEGATIVE_INFINITY,
}

const MAX_TEXT = 200
const THINKING_MS = 20_000

export const stepLive = (state: LiveState, heard: Heard): readonly [LiveState, Said] => {
  const { now, isWorking, failed, asked } = heard
  const begins = isWorking && !state.isWorking
  const next: LiveState = {
    isWorking,
    failed: failed?.id ?? state.failed,
    asked: asked?.id ?? "",
    thoughtAt: begins || isThoughtNew(state, heard) ? now : state.thoughtAt,
  }
  const polite = politeWords(state, heard)
  const assertive = assertiveWords(state, heard)
  return [
    next,
    { ...(polite !== undefined && { polite }), ...(assertive !== undefined && { assertive }) },
  ]
}

const isThoughtNew = ({ thoughtAt }: LiveState, { now, isWorking, isThinking }: Heard): boolean =>
  isWorking && isThinking && now - thoughtAt >= THINKING_MS

const politeWords = (state: LiveState, heard: Heard): string | undefined => {
  const { isWorking, failed, reply } = heard
  if (isWorking && !state.isWorking) return words.liveWorks
  if (!isWorking && state.isWorking)
    return reply?.error === undefined
      ? words.liveDone((reply?.text ?? "").slice(0, MAX_TEXT))
      : undefined
  if (failed && failed.id !== state.failed)
    return words.liveToolFailed(failed.subject.slice(0, MAX_TEXT))
  return isThoughtNew(state, heard) ? words.thinking : undefined
}

const assertiveWords = (state: LiveState, heard: Heard): string | undefined => {
  const { isWorking, asked, reply } = heard
  if (asked && asked.id !== state.asked)
    return asked.kind === "question"
      ? words.liveQuestion(asked.text)
      : words.livePermission(asked.text)
  return !isWorking && state.isWorking && reply?.error !== undefined
    ? words.liveFailed(reply.error)
    : undefined
}

/**
 * Text and reasoning, part by part. What was sent of a part is always a prefix of what the model said, so a
 * snapshot tells exactly what is missing and nothing is ever sent twice. Pure.
 */
import type { AgentTextPart } from "../opencode/events/events.ts"

export interface TextPart {
  readonly id: string
  readonly messageId: string
  readonly kind: "text" | "reasoning"
  /** How many characters were sent, by this life of the runner or an earlier one. */
  readonly sent: number
  /** What is known, all of it sent unless it is held back. An earlier life's words are unknown until OpenCode tells the whole text. */
  readonly text: string | undefined
  /** Words of it wait for others that were said before them. */
  readonly held: boolean
  readonly ended: boolean
  /**
   * Deltas may have been missed, so further ones would leave a hole; the next whole text closes it. While a
   * part streams, OpenCode's own store holds no text of it.
   */
  readonly gapped: boolean
  /** Belongs to an attempt that OpenCode gave up and made anew: no longer part of the answer. */
  readonly dropped: boolean
}

/** What was learned: the parts after it, and the words to send. */
export interface TextStep {
  readonly texts: readonly TextPart[]
  readonly delta: string
}

const indexOf = (texts: readonly TextPart[], partId: string): number =>
  texts.findLastIndex((part) => part.id === partId)

export const onDelta = (texts: readonly TextPart[], partId: string, delta: string): TextStep => {
  const index = indexOf(texts, partId)
  const part = texts[index]
  // A delta whose beginning was never seen cannot be placed: the part's whole text brings it.
  if (!part || part.ended || part.gapped || part.text === undefined) return { texts, delta: "" }
  const sent = part.sent + delta.length
  return { texts: texts.with(index, { ...part, text: part.text + delta, sent }), delta }
}

/** `live` is a snapshot from the stream, in order with its deltas; otherwise it was read beside the stream. */
export const onSnapshot = (
  texts: readonly TextPart[],
  seen: AgentTextPart,
  live: boolean,
): TextStep => {
  const index = indexOf(texts, seen.id)
  const part: TextPart = texts[index] ?? {
    id: seen.id,
    messageId: seen.messageId,
    kind: seen.kind,
    sent: 0,
    text: "",
    held: false,
    ended: false,
    // First met beside the stream, its deltas may have begun already; met on the stream, this is its beginning.
    gapped: !live,
    dropped: false,
  }
  const next = part.ended ? remember(part, seen) : extend(part, seen, live)
  if (next === part && index !== -1) return { texts, delta: "" }
  return {
    texts: index === -1 ? [...texts, next] : texts.with(index, next),
    delta: seen.text.slice(part.sent, Math.max(part.sent, next.sent)),
  }
}

/** Nothing more to send; but the words that an earlier life sent are needed for the final text. */
const remember = (part: TextPart, seen: AgentTextPart): TextPart =>
  part.text === undefined && seen.ended ? { ...part, text: seen.text } : part

const extend = (part: TextPart, seen: AgentTextPart, live: boolean): TextPart => {
  const grows =
    part.text === undefined ? seen.text.length >= part.sent : seen.text.startsWith(part.text)
  return {
    ...part,
    // The whole text is at times shorter by the blanks at its end: what was sent stays as it is.
    text: grows || (seen.ended && !isTrimmed(part, seen)) ? seen.text : part.text,
    sent: grows ? seen.text.length : part.sent,
    ended: seen.ended,
    // An empty snapshot is how a streaming part begins, and tells nothing of what was missed since.
    gapped: !seen.ended && part.gapped && !(live && grows && seen.text !== ""),
  }
}

const isTrimmed = (part: TextPart, seen: AgentTextPart): boolean =>
  part.text?.startsWith(seen.text) === true

/** As if these words had not been sent; they were not. */
export const holdBack = (
  texts: readonly TextPart[],
  partId: string,
  words: string,
): readonly TextPart[] =>
  texts.map((part) =>
    part.id === partId ? { ...part, sent: part.sent - words.length, held: true } : part,
  )

/** Those of an attempt that was given up meanwhile are never said. */
export const release = (texts: readonly TextPart[]) => {
  const held = texts.flatMap((part) => {
    const words = part.held && !part.dropped ? (part.text ?? "").slice(part.sent) : ""
    return words === "" ? [] : [{ part, words }]
  })
  if (!texts.some((part) => part.held)) return { texts, held }
  const sent = (part: TextPart) => Math.max(part.sent, part.text?.length ?? 0)
  return {
    texts: texts.map((part) => (part.held ? { ...part, sent: sent(part), held: false } : part)),
    held,
  }
}

/** After a cut of the stream nothing is known about what the open parts said meanwhile. */
export const onGap = (texts: readonly TextPart[]): readonly TextPart[] =>
  texts.map((part) => (part.ended ? part : { ...part, gapped: true }))

/** OpenCode makes a broken attempt anew inside the same message, as new parts: those it had are void. */
export const voidParts = (
  texts: readonly TextPart[],
  partIds: readonly string[],
): readonly TextPart[] =>
  texts.map((part) =>
    partIds.includes(part.id) && !part.dropped ? { ...part, ended: true, dropped: true } : part,
  )

/** In OpenCode's order, which is that of the conversation; a part that the stream missed was met too late. */
export const inOrder = (
  texts: readonly TextPart[],
  partIds: readonly string[],
): readonly TextPart[] => {
  const place = new Map(partIds.map((id, index) => [id, index]))
  const placeOf = (part: TextPart) => place.get(part.id) ?? Number.MAX_SAFE_INTEGER
  const isSorted = texts.every(
    (part, index) => index === 0 || placeOf(texts[index - 1] ?? part) <= placeOf(part),
  )
  return isSorted ? texts : texts.toSorted((a, b) => placeOf(a) - placeOf(b))
}

const isAnswer = (part: TextPart): boolean => part.kind === "text" && !part.dropped

/** Nothing when words that an earlier life sent were never told again: half an answer must not pass for all of it. */
export const answerText = (texts: readonly TextPart[]): string | undefined => {
  const answer = texts.filter(isAnswer)
  if (answer.some((part) => part.text === undefined)) return undefined
  return answer.map((part) => part.text).join("")
}

export const hasWords = (texts: readonly TextPart[]): boolean =>
  texts.some((part) => isAnswer(part) && part.sent > 0)

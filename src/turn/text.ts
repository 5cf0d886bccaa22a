/**
 * Text and reasoning, part by part. What is known of a part is always a prefix of what the model said, so a
 * snapshot tells exactly what is missing and nothing is ever sent twice. Pure.
 */
import type { AgentTextPart } from "../agent/events.ts"

export interface TextPart {
  readonly id: string
  readonly messageId: string
  readonly kind: "text" | "reasoning"
  /** What is known, all of it sent. */
  readonly text: string
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
  if (!part || part.ended || part.gapped) return { texts, delta: "" }
  return { texts: texts.with(index, { ...part, text: part.text + delta }), delta }
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
    text: "",
    ended: false,
    // First met beside the stream, its deltas may have begun already; met on the stream, this is its beginning.
    gapped: !live,
    dropped: false,
  }
  if (part.ended) return { texts, delta: "" }
  const grows = seen.text.startsWith(part.text)
  const next: TextPart = {
    ...part,
    text: grows ? seen.text : part.text,
    ended: seen.ended,
    gapped: !seen.ended && part.gapped && !(live && grows),
  }
  return {
    texts: index === -1 ? [...texts, next] : texts.with(index, next),
    delta: grows ? seen.text.slice(part.text.length) : "",
  }
}

/** After a cut of the stream nothing is known about what the open parts said meanwhile. */
export const onGap = (texts: readonly TextPart[]): readonly TextPart[] =>
  texts.map((part) => (part.ended ? part : { ...part, gapped: true }))

/** OpenCode makes a broken attempt anew inside the same message, as new parts: the open ones are void. */
export const dropOpenParts = (texts: readonly TextPart[]): readonly TextPart[] =>
  texts.map((part) => (part.ended ? part : { ...part, ended: true, dropped: true }))

export const answerText = (texts: readonly TextPart[]): string =>
  texts
    .filter((part) => part.kind === "text" && !part.dropped)
    .map((part) => part.text)
    .join("")

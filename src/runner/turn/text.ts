/**
 * Text and reasoning, part by part. What was sent of a part is always a prefix of the model's text, so a snapshot
 * shows exactly what is still to be sent, and nothing is sent twice. Pure.
 */
import type { AgentTextPart } from "../opencode/events/events.ts"

export interface TextPart {
  /** Of a sub-agent's part: `childPartId`. */
  readonly id: string
  readonly messageId: string
  readonly kind: "text" | "reasoning"
  /** How many characters were sent, by this process of the runner or an earlier one. */
  readonly sent: number
  /** The known text, all of it sent unless held back. Undefined after a restart, until a snapshot arrives. */
  readonly text: string | undefined
  /** Some of its text is not sent yet, because earlier text is still being read. */
  readonly held: boolean
  readonly ended: boolean
  /**
   * Deltas may have been missed, so later deltas are ignored until a snapshot gives the whole text. OpenCode stores
   * no text of a part while it is streaming.
   */
  readonly gapped: boolean
  /** Belongs to an attempt that OpenCode retried: not part of the answer. */
  readonly dropped: boolean
}

/** The parts after an update, and the text to send. */
export interface TextStep {
  readonly texts: readonly TextPart[]
  readonly delta: string
}

/** The id of a sub-agent's part in the turn and on the wire. OpenCode's own ids contain no slash. */
export const childPartId = (childSessionId: string, partId: string): string =>
  `${childSessionId}/${partId}`

/** The session of the sub-agent that wrote the part; undefined for the turn's own words. */
export const childOf = (partId: string): string | undefined => /^(.+)\//.exec(partId)?.[1]

const indexOf = (texts: readonly TextPart[], partId: string): number =>
  texts.findLastIndex((part) => part.id === partId)

export const onDelta = (texts: readonly TextPart[], partId: string, delta: string): TextStep => {
  const index = indexOf(texts, partId)
  const part = texts[index]
  // Without the text before it a delta cannot be placed; the next snapshot of the part contains it.
  if (!part || part.ended || part.gapped || part.text === undefined) return { texts, delta: "" }
  const sent = part.sent + delta.length
  return { texts: texts.with(index, { ...part, text: part.text + delta, sent }), delta }
}

/** `live`: the snapshot comes from the event stream, in order with its deltas; otherwise it was read over HTTP. */
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
    // A part that is first seen over HTTP may have missed deltas already; on the stream this is its beginning.
    gapped: !live,
    dropped: false,
  }
  const next = part.ended ? fillInText(part, seen) : applySnapshotText(part, seen, live)
  if (next === part && index !== -1) return { texts, delta: "" }
  return {
    texts: index === -1 ? [...texts, next] : texts.with(index, next),
    delta: seen.text.slice(part.sent, Math.max(part.sent, next.sent)),
  }
}

/** All of the part was sent, but the text that an earlier process sent is needed for the final text. */
const fillInText = (part: TextPart, seen: AgentTextPart): TextPart =>
  part.text === undefined && seen.ended ? { ...part, text: seen.text } : part

const applySnapshotText = (part: TextPart, seen: AgentTextPart, live: boolean): TextPart => {
  const grows =
    part.text === undefined ? seen.text.length >= part.sent : seen.text.startsWith(part.text)
  return {
    ...part,
    // The final text may lack trailing whitespace that was streamed: what was sent stays as it is.
    text: grows || (seen.ended && !isTrimmed(part, seen)) ? seen.text : part.text,
    sent: grows ? seen.text.length : part.sent,
    ended: seen.ended,
    // A streaming part starts with an empty snapshot, which does not show the deltas missed since.
    gapped: !seen.ended && part.gapped && !(live && grows && seen.text !== ""),
  }
}

const isTrimmed = (part: TextPart, seen: AgentTextPart): boolean =>
  part.text?.startsWith(seen.text) === true

/** Marks the text, which is counted as sent, as not sent yet. */
export const holdBack = (
  texts: readonly TextPart[],
  partId: string,
  delta: string,
): readonly TextPart[] =>
  texts.map((part) =>
    part.id === partId ? { ...part, sent: part.sent - delta.length, held: true } : part,
  )

/** The text to send now. Text of parts that were dropped in the meantime is never sent. */
export const releaseHeld = (texts: readonly TextPart[]) => {
  const held = texts.flatMap((part) => {
    const delta = part.held && !part.dropped ? (part.text ?? "").slice(part.sent) : ""
    return delta === "" ? [] : [{ part, delta }]
  })
  if (!texts.some((part) => part.held)) return { texts, held }
  const sent = (part: TextPart) => Math.max(part.sent, part.text?.length ?? 0)
  return {
    texts: texts.map((part) => (part.held ? { ...part, sent: sent(part), held: false } : part)),
    held,
  }
}

/** After a stream gap every open part may have missed deltas. */
export const onStreamGap = (texts: readonly TextPart[]): readonly TextPart[] =>
  texts.map((part) => (part.ended ? part : { ...part, gapped: true }))

/** OpenCode retries a failed attempt inside the same message with new parts: the old parts are dropped. */
export const markDropped = (
  texts: readonly TextPart[],
  partIds: readonly string[],
): readonly TextPart[] =>
  texts.map((part) =>
    partIds.includes(part.id) && !part.dropped ? { ...part, ended: true, dropped: true } : part,
  )

/** Sorts parts in OpenCode's order, the order of the conversation: a part that the stream missed was added too late. */
export const sortParts = (
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

/** The words of sub-agents are not part of the answer. */
const isAnswer = (part: TextPart): boolean =>
  part.kind === "text" && !part.dropped && childOf(part.id) === undefined

/** Undefined when the text that an earlier process sent is unknown: half an answer must not pass for the whole. */
export const answerText = (texts: readonly TextPart[]): string | undefined => {
  const answer = texts.filter(isAnswer)
  if (answer.some((part) => part.text === undefined)) return undefined
  return answer.map((part) => part.text).join("")
}

export const hasText = (texts: readonly TextPart[]): boolean =>
  texts.some((part) => isAnswer(part) && part.sent > 0)

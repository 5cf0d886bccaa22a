/**
 * A turn on disk and back: everything a restarted runner needs to resume the turn where the last process stopped.
 * The stored field names are part of every state directory and stay as they are when `Turn` renames a field. Pure.
 */
import { type Draft, requestRead, setStatus, setTimer } from "./draft.ts"
import type { TextPart } from "./text.ts"
import type { Turn, TurnIdentity } from "./turn.ts"
import { STOPPING_MS } from "./timeouts.ts"

/** The fields of a turn that are stored as one JSON value; texts have rows of their own. */
type StoredFields = Omit<
  Turn,
  "texts" | "outputs" | "progressAt" | "pendingCatchUps" | "busyReads" | "openReads"
>

type RenamedField =
  | "identity"
  | "discardedMessages"
  | "parentIds"
  | "promptCreatedAt"
  | "steeredBy"
  | "countedChildMessages"
  | "postCount"
  | "modelResponded"

/** A turn under its stored names, without its texts. It is written whole whenever one of its fields changed. */
export interface SavedTurn extends Omit<StoredFields, RenamedField> {
  readonly identity: Omit<TurnIdentity, "agentSessionId"> & { readonly sessionId: string }
  readonly voided: Turn["discardedMessages"]
  readonly parents: Turn["parentIds"]
  readonly askedAt: Turn["promptCreatedAt"]
  readonly overtakenBy: Turn["steeredBy"]
  readonly counted: Turn["countedChildMessages"]
  readonly posts: Turn["postCount"]
  readonly heard: Turn["modelResponded"]
}

/** A part without its text, which OpenCode stores. */
export type SavedText = Omit<TextPart, "text" | "gapped" | "held">

const toSaved = ({
  identity: { agentSessionId, ...identity },
  discardedMessages,
  parentIds,
  promptCreatedAt,
  steeredBy,
  countedChildMessages,
  postCount,
  modelResponded,
  ...rest
}: StoredFields): SavedTurn => ({
  ...rest,
  identity: { ...identity, sessionId: agentSessionId },
  voided: discardedMessages,
  parents: parentIds,
  askedAt: promptCreatedAt,
  overtakenBy: steeredBy,
  counted: countedChildMessages,
  posts: postCount,
  heard: modelResponded,
})

const fromSaved = ({
  identity: { sessionId, ...identity },
  voided,
  parents,
  askedAt,
  overtakenBy,
  counted,
  posts,
  heard,
  ...rest
}: SavedTurn): StoredFields => ({
  ...rest,
  identity: { ...identity, agentSessionId: sessionId },
  discardedMessages: voided,
  parentIds: parents,
  promptCreatedAt: askedAt,
  steeredBy: overtakenBy,
  countedChildMessages: counted,
  postCount: posts,
  modelResponded: heard,
})

/** Undefined when only text was added since `before`: that happens with every delta and must not cost a write. */
export const changedTurn = (turn: Turn, before: Turn | undefined): SavedTurn | undefined => {
  const {
    texts: _texts,
    outputs: _outputs,
    progressAt: _progressAt,
    pendingCatchUps: _catchUps,
    busyReads: _busyReads,
    openReads: _openReads,
    ...stored
  } = turn
  if (!before) return toSaved(stored)
  const known: Readonly<Record<string, unknown>> = { ...before }
  const isChanged = Object.entries(stored).some(([field, value]) => known[field] !== value)
  return isChanged ? toSaved(stored) : undefined
}

/** Parts are immutable: the same object means the same stored row. */
export const changedTexts = (turn: Turn, before: Turn | undefined): readonly SavedText[] => {
  if (turn.texts === before?.texts) return []
  const known = new Set(before?.texts)
  return turn.texts.flatMap((part) => (known.has(part) ? [] : [withoutText(part)]))
}

const withoutText = (part: TextPart): SavedText => {
  const { id, messageId, kind, sent, dropped } = part
  // An ended part is not read again, so a part with text held back must be stored as open or that text is lost.
  return { id, messageId, kind, sent, ended: part.ended && !part.held, dropped }
}

export const restoreTurn = (saved: SavedTurn, texts: readonly SavedText[]): Turn => ({
  ...fromSaved(saved),
  outputs: [],
  progressAt: 0,
  pendingCatchUps: 0,
  busyReads: undefined,
  openReads: 0,
  texts: texts.map((part) => ({
    ...part,
    text: part.sent === 0 && part.ended ? "" : undefined,
    gapped: !part.ended,
    held: false,
  })),
})

/** Anything may have happened while no runner ran: reads the session, and continues the remaining budgets. */
export const resume = (turn: Draft, at: number): void => {
  const { firstEvent, progress, total } = turn.settings.budgets
  turn.progressAt = at
  turn.postCount = 0
  if (turn.startedAt === 0) turn.startedAt = at
  if (turn.status === "idle") setStatus(turn, "thinking")
  turn.pendingCatchUps += 1
  // A foreign turn is not resumed when it is first seen: the runner has seen none of it before.
  if (!turn.settings.observed) turn.resumed = true
  requestRead(turn, "resume")
  if (turn.stopped) setTimer(turn, "stopping", STOPPING_MS)
  if (turn.settings.observed) return
  const waitsForSteeredTurn = turn.settings.joins && turn.phase === "asked"
  if (!turn.modelResponded && !waitsForSteeredTurn) setTimer(turn, "first-event", firstEvent)
  if (!waitsForSteeredTurn) setTimer(turn, "progress", progress)
  setTimer(turn, "total", Math.max(0, turn.startedAt + total - at))
}

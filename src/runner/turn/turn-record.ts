/** A turn on disk and back: what a new life of the runner must know to go on exactly where the last one stopped. Pure. */
import { type Draft, read, setStatus, timer } from "./draft.ts"
import type { TextPart } from "./text.ts"
import type { Turn } from "./turn.ts"
import { STOPPING_MS } from "./timeouts.ts"

/** All but the texts: written whole whenever one of its fields changed. */
export type SavedTurn = Omit<Turn, "texts" | "progressAt" | "missing">

/** A part without its words: they are OpenCode's to keep. */
export type SavedText = Omit<TextPart, "text" | "gapped" | "held">

const fieldsOf = ({
  texts: _texts,
  progressAt: _progressAt,
  missing: _missing,
  ...saved
}: Turn): SavedTurn => saved

/** Nothing when only words were added since `before`: that must stay cheap. */
export const changedTurn = (turn: Turn, before: Turn | undefined): SavedTurn | undefined => {
  const saved = fieldsOf(turn)
  if (!before) return saved
  const known: Readonly<Record<string, unknown>> = { ...before }
  return Object.entries(saved).some(([field, value]) => known[field] !== value) ? saved : undefined
}

/** Parts are never changed in place, so what is the same object is the same on disk. */
export const changedTexts = (turn: Turn, before: Turn | undefined): readonly SavedText[] => {
  if (turn.texts === before?.texts) return []
  const known = new Set(before?.texts)
  return turn.texts.flatMap((part) => (known.has(part) ? [] : [withoutWords(part)]))
}

const withoutWords = (part: TextPart): SavedText => {
  const { id, messageId, kind, sent, dropped } = part
  // One that is ended is not looked at again; words that wait here would be lost with this life.
  return { id, messageId, kind, sent, ended: part.ended && !part.held, dropped }
}

export const restoreTurn = (saved: SavedTurn, texts: readonly SavedText[]): Turn => ({
  ...saved,
  progressAt: 0,
  missing: 0,
  texts: texts.map((part) => ({
    ...part,
    text: part.sent === 0 && part.ended ? "" : undefined,
    gapped: !part.ended,
    held: false,
  })),
})

/** Everything may have happened since: OpenCode is asked, and the budgets count on. */
export const resume = (turn: Draft, at: number): void => {
  const { firstEvent, progress, total } = turn.settings.budgets
  turn.progressAt = at
  turn.posts = 0
  if (turn.startedAt === 0) turn.startedAt = at
  if (turn.status === "idle") setStatus(turn, "thinking")
  turn.missing += 1
  read(turn, "resume")
  const waitsForOther = turn.settings.joins && turn.phase === "asked"
  if (!turn.heard && !waitsForOther) timer(turn, "first-event", firstEvent)
  if (!waitsForOther) timer(turn, "progress", progress)
  timer(turn, "total", Math.max(0, turn.startedAt + total - at))
  if (turn.stopped) timer(turn, "stopping", STOPPING_MS)
}

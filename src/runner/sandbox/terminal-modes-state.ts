/**
 * The modes of a terminal that programs switch on and off (alternate screen, mouse, bracketed paste), read from the
 * output. The kept output may begin after a mode was switched on, so a new viewer needs the modes first. Pure.
 */

/** Private modes whose state is kept: `CSI ? <number> h` switches one on, `l` off. */
const KEPT = new Set([
  1, 7, 12, 25, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004,
])
/** Modes that are on in a new terminal. */
const ON_AT_RESET = new Set([7, 25])
/** Modes that make the terminal send bytes by itself: without the program that asked for them, they are noise. */
const REPORTING = [1000, 1002, 1003, 1004, 1005, 1006, 1015]

interface ModeChange {
  readonly offset: number
  readonly mode: number
  readonly on: boolean
}

export interface ModesState {
  /** The modes at the beginning of the kept output that differ from a new terminal's. */
  readonly base: ReadonlyMap<number, boolean>
  /** The changes within the kept output, in order. */
  readonly changes: readonly ModeChange[]
  /** The end of the last output, if it may be the beginning of a sequence. */
  readonly partial: string
}

export const newModes: ModesState = { base: new Map(), changes: [], partial: "" }

const ESCAPE = "\u001B"
const SEQUENCE = new RegExp(String.raw`${ESCAPE}\[\?([\d;]{1,64})([hl])|${ESCAPE}c`, "g")
const BEGINNING = new RegExp(String.raw`${ESCAPE}(?:\[(?:\?[\d;]{0,64})?)?$`)
const RESET = `${ESCAPE}c`

/** `text` is output as latin1, and `offset` is that of its first byte. */
export const readModes = (state: ModesState, text: string, offset: number): ModesState => {
  const all = state.partial + text
  const start = offset - state.partial.length
  const found: ModeChange[] = []
  for (const match of all.matchAll(SEQUENCE)) {
    const at = start + match.index
    if (match[0] === RESET) {
      for (const mode of KEPT) found.push({ offset: at, mode, on: ON_AT_RESET.has(mode) })
      continue
    }
    for (const mode of (match[1] ?? "").split(";").map(Number))
      if (KEPT.has(mode)) found.push({ offset: at, mode, on: match[2] === "h" })
  }
  return {
    base: state.base,
    changes: found.length === 0 ? state.changes : [...state.changes, ...found],
    partial: BEGINNING.exec(all)?.[0] ?? "",
  }
}

/** Changes before `offset`, where the kept output begins now, become part of the base. */
export const forgetBefore = (state: ModesState, offset: number): ModesState => {
  if ((state.changes[0]?.offset ?? offset) >= offset) return state
  const base = new Map(state.base)
  for (const { offset: at, mode, on } of state.changes) if (at < offset) setMode(base, mode, on)
  return { ...state, base, changes: state.changes.filter(({ offset: at }) => at >= offset) }
}

const setMode = (modes: Map<number, boolean>, mode: number, on: boolean): void => {
  if (on === ON_AT_RESET.has(mode)) modes.delete(mode)
  else modes.set(mode, on)
}

/** What a new terminal needs before the kept output. */
export const modesBefore = ({ base }: ModesState): string =>
  [...base].map(([mode, on]) => `\u001B[?${mode}${on ? "h" : "l"}`).join("")

/** Switches off what a program has left on: empty if nothing is. */
export const endOfReports = (state: ModesState): string => {
  const now = new Map(state.base)
  for (const { mode, on } of state.changes) setMode(now, mode, on)
  return REPORTING.filter((mode) => now.get(mode) === true)
    .map((mode) => `\u001B[?${mode}l`)
    .join("")
}

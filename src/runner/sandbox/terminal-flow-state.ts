/**
 * Who sees how much of a terminal's output. The output is kept in a ring; each viewer is a place in it. A viewer that is
 * slow stops the program for a while, as a slow terminal does; one that takes nothing is skipped and gets the kept output
 * again. So no viewer costs memory beyond the ring. Pure.
 */

export interface FlowViewer {
  /** The offset of the next byte that it gets. */
  readonly at: number
  /** Its socket accepts bytes. */
  readonly ready: boolean
  /** It has asked for a pause. */
  readonly paused: boolean
  /** When it last got bytes, or had all of them. */
  readonly movedAt: number
}

export interface FlowState {
  /** Bytes of output since the start. */
  readonly written: number
  /** The program is stopped until the viewers have caught up. */
  readonly stopped: boolean
  readonly viewers: ReadonlyMap<string, FlowViewer>
}

export type FlowEvent = { readonly now: number } & (
  | { readonly type: "output"; readonly bytes: number }
  | { readonly type: "tick" }
  | {
      readonly type: "joined" | "left" | "blocked" | "drained" | "paused" | "resumed"
      readonly viewer: string
    }
)

export type FlowEffect =
  /** Bytes from one offset up to another. */
  | { readonly do: "send"; readonly viewer: string; readonly from: number; readonly to: number }
  /** Everything that is kept, after a reset of the viewer's screen. */
  | { readonly do: "replay"; readonly viewer: string }
  | { readonly do: "stop" | "resume" }

/** A stop takes effect late on a busy machine: the ring is larger than what a stopped program still writes. */
export const RING_BYTES = 16 * 1024 * 1024
/** How much of the kept output a new viewer gets. */
export const REPLAY_BYTES = 1024 * 1024
/** The program is stopped when a viewer is this far behind, and continues when all are less than this far. */
const STOP_BYTES = 128 * 1024
const RESUME_BYTES = 32 * 1024
/** A viewer that takes nothing for this long no longer stops the program. */
const PATIENCE_MS = 5000

export const emptyFlow: FlowState = { written: 0, stopped: false, viewers: new Map() }

export const stepFlow = (
  state: FlowState,
  event: FlowEvent,
): readonly [FlowState, readonly FlowEffect[]] => {
  const { now } = event
  const written = state.written + (event.type === "output" ? event.bytes : 0)
  const effects: FlowEffect[] = []
  const viewers = new Map(viewersAfter(state, event))
  for (const [viewer, one] of viewers) {
    if (!one.ready || one.paused) continue
    if (one.at < written) {
      const isLost = one.at < written - RING_BYTES
      effects.push(
        isLost ? { do: "replay", viewer } : { do: "send", viewer, from: one.at, to: written },
      )
    }
    viewers.set(viewer, { ...one, at: written, movedAt: now })
  }
  const isHeld = (limit: number) =>
    [...viewers.values()].some(
      ({ at, movedAt }) => written - at > limit && now - movedAt < PATIENCE_MS,
    )
  const stopped = isHeld(state.stopped ? RESUME_BYTES : STOP_BYTES)
  if (stopped !== state.stopped) effects.push({ do: stopped ? "stop" : "resume" })
  return [{ written, stopped, viewers }, effects]
}

const viewersAfter = (
  { viewers, written }: FlowState,
  event: FlowEvent,
): Iterable<readonly [string, FlowViewer]> => {
  if (event.type === "output" || event.type === "tick") return viewers
  const { viewer, now } = event
  const rest = [...viewers].filter(([id]) => id !== viewer)
  if (event.type === "left") return rest
  // A new viewer is sent the kept output by its caller, so its place is the end.
  if (event.type === "joined")
    return [...rest, [viewer, { at: written, ready: true, paused: false, movedAt: now }]]
  const known = viewers.get(viewer)
  if (known === undefined) return viewers
  const change = {
    blocked: { ready: false },
    drained: { ready: true },
    paused: { paused: true },
    resumed: { paused: false },
  }[event.type]
  return [...rest, [viewer, { ...known, ...change }]]
}

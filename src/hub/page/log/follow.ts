/** Whether the view stays at the end of the conversation. The person decides it by moving; nothing else does. Pure. */

export interface Follow {
  readonly follows: boolean
  /** Something has arrived below since the person left the end. */
  readonly hasNew: boolean
}

export type FollowEvent =
  /** The scroll position changed, not by the page itself. */
  | { readonly type: "scrolled"; readonly up: boolean; readonly toEnd: number }
  /** A wheel, a key or a touch upwards; a fold, a selection or the focus inside the log. */
  | { readonly type: "left"; readonly toEnd: number }
  | { readonly type: "grew" }
  /** The person sent a prompt, pressed End or "Newest". */
  | { readonly type: "joined" }

/** Within this distance of the end, the view is at the end. */
export const NEAR_END = 24

export const initialFollow: Follow = { follows: true, hasNew: false }

export const stepFollow = (state: Follow, event: FollowEvent): Follow => {
  switch (event.type) {
    case "scrolled":
      if (event.toEnd <= NEAR_END) return initialFollow
      return event.up ? { ...state, follows: false } : state
    case "left":
      return { ...state, follows: false }
    case "grew":
      return state.follows || state.hasNew ? state : { ...state, hasNew: true }
    case "joined":
      return initialFollow
  }
}

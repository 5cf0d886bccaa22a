/** Where the person was in each conversation: a turn and its distance from the top of the view. It lasts as long as the tab. */

export interface Place {
  readonly turn: string
  readonly top: number
}

const nameOf = (conversation: string): string => `place:${conversation}`

/** `undefined` when the person was at the end. */
export const readPlace = (conversation: string): Place | undefined => {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(nameOf(conversation)) ?? "null")
    const { turn, top } = (found ?? {}) as Partial<Place>
    return typeof turn === "string" && typeof top === "number" ? { turn, top } : undefined
  } catch {
    return undefined
  }
}

export const writePlace = (conversation: string, place: Place | undefined): void => {
  try {
    if (place === undefined) sessionStorage.removeItem(nameOf(conversation))
    else sessionStorage.setItem(nameOf(conversation), JSON.stringify(place))
  } catch {
    // Forbidden or full: the conversation opens at its end.
  }
}

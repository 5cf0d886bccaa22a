/** What Enter does in a field of the page. One rule for every field, because input methods also end with Enter. */

export interface EnterKey {
  readonly key: string
  readonly shiftKey: boolean
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
  readonly isComposing: boolean
  readonly keyCode: number
}

/** While an input method composes text, browsers report this code for every key. */
const COMPOSING = 229

/** `first`: send it before everything that waits. On a touch screen Enter is a new line. */
export const submitsOn = (event: EnterKey, isTouch: boolean): "send" | "first" | undefined => {
  if (event.key !== "Enter" || event.isComposing || event.keyCode === COMPOSING) return undefined
  if (event.ctrlKey || event.metaKey) return "first"
  if (event.shiftKey || event.altKey || isTouch) return undefined
  return "send"
}

/** A request to put the focus into the prompt; its value counts the requests. */
import { signal } from "@preact/signals"

export const composerFocus = signal(0)

export const focusComposer = (): void => {
  composerFocus.value += 1
}

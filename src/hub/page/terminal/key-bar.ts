/** A bar of keys that the keyboard of a phone lacks. `Ctrl` holds for the next key. */

/** `Ctrl` stands after the first two. */
const KEYS: readonly (readonly [string, string])[] = [
  ["Esc", "\u001B"],
  ["Tab", "\t"],
  ["↑", "\u001B[A"],
  ["↓", "\u001B[B"],
  ["←", "\u001B[D"],
  ["→", "\u001B[C"],
  ["|", "|"],
  ["/", "/"],
  ["-", "-"],
  ["~", "~"],
]

export interface KeyBar {
  /** What a typed text means while Ctrl is held: a letter becomes its control character. */
  readonly apply: (typed: string) => string
}

/** The character of Ctrl with this key; the key itself where there is none. */
const withControl = (key: string): string => {
  const code = key.toUpperCase().codePointAt(0) ?? 0
  return key.length === 1 && code >= 64 && code <= 95 ? String.fromCodePoint(code & 31) : key
}

export const createKeyBar = (bar: HTMLElement, type: (text: string) => void): KeyBar => {
  let isHeld = false
  const control = document.createElement("button")
  const hold = (held: boolean) => {
    isHeld = held
    control.setAttribute("aria-pressed", String(held))
  }
  control.textContent = "Ctrl"
  control.addEventListener("click", () => hold(!isHeld))
  hold(false)
  const keys = KEYS.map(([name, text]) => {
    const button = document.createElement("button")
    button.textContent = name
    button.addEventListener("click", () => type(text))
    return button
  })
  for (const button of [control, ...keys]) {
    button.type = "button"
    // The terminal keeps the focus, so the phone's keyboard stays open.
    button.addEventListener("pointerdown", (event) => event.preventDefault())
  }
  bar.replaceChildren(...keys.slice(0, 2), control, ...keys.slice(2))
  bar.hidden = !matchMedia("(pointer: coarse)").matches
  return {
    apply: (typed) => {
      if (!isHeld) return typed
      hold(false)
      return withControl(typed)
    },
  }
}

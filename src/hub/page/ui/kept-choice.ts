/**
 * What the person opened or closed, by name. It outlives the element, which leaves the document when it is far from the
 * view, and lasts as long as the tab.
 */
import { useState } from "preact/hooks"

const STORED = "choices"
/** The oldest choices are forgotten. */
const MAX_CHOICES = 500

const read = (): Map<string, boolean> => {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(STORED) ?? "[]")
    return new Map(stored as readonly (readonly [string, boolean])[])
  } catch {
    // Forbidden or unreadable: everything is as it was first shown.
    return new Map()
  }
}

const choices = read()

const keep = (name: string, choice: boolean): void => {
  choices.delete(name)
  choices.set(name, choice)
  for (const oldest of [...choices.keys()].slice(0, -MAX_CHOICES)) choices.delete(oldest)
  try {
    sessionStorage.setItem(STORED, JSON.stringify([...choices]))
  } catch {
    // Full: the choice lasts until a reload.
  }
}

/** The person's choice; `undefined` when there is none yet. */
export const useKeptChoice = (
  name: string,
): readonly [choice: boolean | undefined, choose: (choice: boolean) => void] => {
  const [choice, setChoice] = useState(() => choices.get(name))
  return [
    choice,
    (chosen) => {
      keep(name, chosen)
      setChoice(chosen)
    },
  ]
}

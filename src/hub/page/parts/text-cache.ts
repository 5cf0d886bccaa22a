/**
 * What was made from a text, kept for when the text is shown again: turns leave the document and come back while a person
 * scrolls. The texts that were not used for the longest time are dropped first.
 */

export interface TextCache<Made> {
  readonly has: (text: string) => boolean
  readonly get: (text: string, make: () => Made) => Made
}

export const createTextCache = <Made>(maxCharacters: number): TextCache<Made> => {
  const known = new Map<string, Made>()
  let characters = 0
  const drop = (text: string) => {
    if (known.delete(text)) characters -= text.length
  }
  return {
    has: (text) => known.has(text),
    get: (text, make) => {
      const made = known.get(text) ?? make()
      drop(text)
      known.set(text, made)
      characters += text.length
      for (const oldest of known.keys()) {
        if (characters <= maxCharacters) break
        drop(oldest)
      }
      return made
    },
  }
}

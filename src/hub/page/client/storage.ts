/** Small values that survive a reload. A browser may forbid storage: then they last as long as the page. */

const memory = new Map<string, string>()

export const readStored = (name: string): string | undefined => {
  try {
    return localStorage.getItem(name) ?? memory.get(name)
  } catch {
    return memory.get(name)
  }
}

export const writeStored = (name: string, value: string | undefined): void => {
  if (value === undefined) memory.delete(name)
  else memory.set(name, value)
  try {
    if (value === undefined) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
  } catch {
    // Full or forbidden: the value stays in memory.
  }
}

export const storedNames = (): readonly string[] => {
  try {
    return Object.keys(localStorage)
  } catch {
    return [...memory.keys()]
  }
}

export const readJson = <Value>(name: string, fallback: Value): Value => {
  try {
    return JSON.parse(readStored(name) ?? "") as Value
  } catch {
    return fallback
  }
}

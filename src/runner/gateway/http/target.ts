/** Takes the address of a request apart, and refuses those that mean one thing here and another behind the gateway. */
import { HttpError } from "./fields.ts"

export interface Target {
  readonly path: string
  /** With its question mark, as it came; empty when there is none. */
  readonly search: string
}

/** What a backend may read as a step upwards or as a separator, in any spelling. */
const DOT = String.raw`(?:\.|%2e)`
const SLASH = String.raw`(?:\/|%2f|%5c)`
const UPWARDS = new RegExp(`(?:^|${SLASH})${DOT}{1,2}(?:${SLASH}|$)`, "i")
const FORBIDDEN = /[\\#]|%00|%0a|%0d/i
const SUSPICIOUS = /[\\#.%]/

export const parseTarget = (target: string): Target => {
  if (!target.startsWith("/") || target.startsWith("//")) {
    throw new HttpError(400, "the address must be a path of this host")
  }
  const mark = target.indexOf("?")
  const path = mark === -1 ? target : target.slice(0, mark)
  if (SUSPICIOUS.test(path) && (FORBIDDEN.test(path) || UPWARDS.test(path))) {
    throw new HttpError(400, "the address has a part that is not allowed")
  }
  return { path, search: mark === -1 ? "" : target.slice(mark) }
}

/** The first value of a query parameter. */
export const queryValue = (search: string, name: string): string | undefined => {
  for (const piece of pieces(search)) if (nameOf(piece) === name) return valueOf(piece)
  return undefined
}

/** The query without every parameter of these names; all others keep their very spelling. */
export const withoutQuery = (search: string, names: readonly string[]): string => {
  if (search === "") return search
  const kept = pieces(search).filter((piece) => !names.includes(nameOf(piece)))
  return kept.length === 0 ? "" : `?${kept.join("&")}`
}

const pieces = (search: string): string[] => (search === "" ? [] : search.slice(1).split("&"))

const nameOf = (piece: string): string => {
  const equals = piece.indexOf("=")
  return decode(equals === -1 ? piece : piece.slice(0, equals))
}

const valueOf = (piece: string): string => {
  const equals = piece.indexOf("=")
  return equals === -1 ? "" : decode(piece.slice(equals + 1))
}

/** A query that is not well-formed is still compared by what it plainly says. */
const decode = (text: string): string => {
  const spaced = text.replaceAll("+", " ")
  try {
    return decodeURIComponent(spaced)
  } catch {
    return spaced
  }
}

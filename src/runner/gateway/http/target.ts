/** Splits a request target into path and query, and refuses paths that a backend might read differently. */
import { HttpError } from "./fields.ts"

export interface Target {
  readonly path: string
  /** With its question mark, as received; empty if there is no query. */
  readonly search: string
}

/** Segments that a backend may read as `.`, `..` or a separator, in any encoding. */
const DOT = String.raw`(?:\.|%2e)`
const SLASH = String.raw`(?:\/|%2f|%5c)`
const DOT_SEGMENT = new RegExp(`(?:^|${SLASH})${DOT}{1,2}(?:${SLASH}|$)`, "i")
const FORBIDDEN = /[\\#]|%00|%0a|%0d/i
const SUSPICIOUS = /[\\#.%]/

export const parseTarget = (target: string): Target => {
  if (!target.startsWith("/") || target.startsWith("//")) {
    throw new HttpError(400, "the request target must be a path")
  }
  const mark = target.indexOf("?")
  const path = mark === -1 ? target : target.slice(0, mark)
  if (SUSPICIOUS.test(path) && (FORBIDDEN.test(path) || DOT_SEGMENT.test(path))) {
    throw new HttpError(400, "the path contains a forbidden segment or character")
  }
  return { path, search: mark === -1 ? "" : target.slice(mark) }
}

/** The first value of a query parameter. */
export const queryValue = (search: string, name: string): string | undefined => {
  for (const parameter of parameters(search))
    if (nameOf(parameter) === name) return valueOf(parameter)
  return undefined
}

/** The query without the parameters of these names; the others keep their spelling. */
export const withoutQuery = (search: string, names: readonly string[]): string => {
  if (search === "") return search
  const kept = parameters(search).filter((parameter) => !names.includes(nameOf(parameter)))
  return kept.length === 0 ? "" : `?${kept.join("&")}`
}

const parameters = (search: string): string[] => (search === "" ? [] : search.slice(1).split("&"))

const nameOf = (parameter: string): string => {
  const equals = parameter.indexOf("=")
  return decode(equals === -1 ? parameter : parameter.slice(0, equals))
}

const valueOf = (parameter: string): string => {
  const equals = parameter.indexOf("=")
  return equals === -1 ? "" : decode(parameter.slice(equals + 1))
}

/** A malformed query is compared as it is. */
const decode = (text: string): string => {
  const spaced = text.replaceAll("+", " ")
  try {
    return decodeURIComponent(spaced)
  } catch {
    return spaced
  }
}

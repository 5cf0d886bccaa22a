/** Paths of the sandbox as people read them: relative to the workspace, and recognized in the agent's text. Pure. */

/** The directory in which the agent works, as the runner reports it; empty when it does not. */
export const workspaceOf = (state: Readonly<Record<string, unknown>>): string => {
  const runner = state["runner"]
  if (typeof runner !== "object" || runner === null) return ""
  const { directory } = runner as { readonly directory?: unknown }
  return typeof directory === "string" ? directory : ""
}

/** A path below the workspace without it; any other path as it is. */
export const relativePath = (path: string, workspace: string): string => {
  if (workspace === "" || workspace === "/") return path
  if (path === workspace) return "."
  return path.startsWith(`${workspace}/`) ? path.slice(workspace.length + 1) : path
}

/** A directory as a person writes it: the home directory is `~`. */
export const fromHome = (directory: string): string =>
  directory.replace(/^(?:\/root|\/(?:home|Users)\/[^/]+)(?=\/|$)/, "~")

export interface FilePlace {
  readonly path: string
  readonly line?: number
}

const PLACE =
  /^((?:\.{0,2}\/)?(?:[\w@.+-]+\/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7})(?::(\d{1,7})(?:[-:]\d{1,7})?)?$/

/**
 * `src/a.ts:12` as a place in a file. A name alone, such as `console.log`, is one only with a line or when it is the name
 * of a known file.
 */
export const placeIn = (
  text: string,
  workspace: string,
  known: readonly string[],
): FilePlace | undefined => {
  const match = PLACE.exec(relativePath(text.trim(), workspace))
  const path = match?.[1]?.replace(/^\.\//, "")
  if (path === undefined) return undefined
  const line = match?.[2] === undefined ? undefined : Number(match[2])
  if (!path.includes("/") && line === undefined && !known.includes(path)) return undefined
  return { path, ...(line !== undefined && { line }) }
}

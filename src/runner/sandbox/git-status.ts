/** Reads the output of `git status --porcelain=v2 --branch -z` and counts the lines of a patch. Pure. */

export interface GitStatus {
  /** Undefined on a detached HEAD. */
  readonly branch: string | undefined
  /** Undefined before the first commit. */
  readonly head: string | undefined
  readonly ahead: number | undefined
  readonly behind: number | undefined
  readonly files: readonly StatusFile[]
}

export interface StatusFile {
  readonly path: string
  readonly status: "added" | "modified" | "deleted"
  readonly isTracked: boolean
}

export const parseStatus = (text: string): GitStatus => {
  const records = text.split("\0")
  const files: StatusFile[] = []
  let branch: string | undefined
  let head: string | undefined
  let ahead: number | undefined
  let behind: number | undefined
  for (let index = 0; index < records.length; index += 1) {
    const record = records[index] ?? ""
    const [kind] = record
    if (kind === "#") {
      const [, name, ...values] = record.split(" ")
      if (name === "branch.head" && values[0] !== "(detached)") branch = values.join(" ")
      if (name === "branch.oid" && values[0] !== "(initial)") head = values[0]
      if (name === "branch.ab") {
        ahead = Math.abs(Number(values[0]))
        behind = Math.abs(Number(values[1]))
      }
    } else if (kind === "?") {
      files.push({ path: record.slice(2), status: "added", isTracked: false })
    } else if (kind === "1" || kind === "u") {
      const path = record
        .split(" ")
        .slice(kind === "1" ? 8 : 10)
        .join(" ")
      files.push({ path, status: statusOf(record.slice(2, 4)), isTracked: true })
    } else if (kind === "2") {
      // A rename or copy: the next record is the old path, which a copy leaves in place.
      const path = record.split(" ").slice(9).join(" ")
      index += 1
      const from = records[index] ?? ""
      files.push({ path, status: "added", isTracked: true })
      if (record.slice(2, 4).includes("R"))
        files.push({ path: from, status: "deleted", isTracked: true })
    }
  }
  return { branch, head, ahead, behind, files }
}

/** The two letters of a record: the change in the index, and the change in the worktree. */
const statusOf = (letters: string): StatusFile["status"] => {
  if (letters[1] === "D" || letters === "D.") return "deleted"
  return letters[0] === "A" ? "added" : "modified"
}

/** Characters of a file's patch that are sent. */
export const MAX_PATCH = 64 * 1024

export const capPatch = (patch: string): string =>
  patch.length <= MAX_PATCH
    ? patch
    : `${patch.slice(0, MAX_PATCH).toWellFormed()}\n[the patch is ${patch.length} characters long: the rest is not shown]\n`

/** Numbers of added and deleted lines of a patch. */
export const countLines = (
  patch: string,
): { readonly additions: number; readonly deletions: number } => {
  const body = patch.slice(Math.max(0, patch.search(/^@@ /m)))
  if (!body.startsWith("@@ ")) return { additions: 0, deletions: 0 }
  return {
    additions: body.match(/^\+/gm)?.length ?? 0,
    deletions: body.match(/^-/gm)?.length ?? 0,
  }
}

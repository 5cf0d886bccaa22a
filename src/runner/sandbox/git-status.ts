/** Reads the output of `git status --porcelain=v2 --branch -z` and `git diff -z`, and counts the lines of a patch. Pure. */

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

const DIFF_LETTERS: Readonly<Record<string, StatusFile["status"]>> = { A: "added", D: "deleted" }

/** The output of `git diff --name-status -z --no-renames`. */
export const parseNameStatus = (text: string): readonly StatusFile[] => {
  const records = text.split("\0")
  const files: StatusFile[] = []
  for (let index = 0; index + 1 < records.length; index += 2) {
    const path = records[index + 1] ?? ""
    const status = DIFF_LETTERS[records[index]?.[0] ?? ""] ?? "modified"
    if (path !== "") files.push({ path, status, isTracked: true })
  }
  return files
}

/** The output of `git diff --numstat -z --no-renames`: added and deleted lines by path. A binary file has none. */
export const parseNumstat = (
  text: string,
): ReadonlyMap<string, { readonly additions: number; readonly deletions: number }> =>
  new Map(
    text.split("\0").flatMap((record) => {
      const [added = "", deleted = "", ...path] = record.split("\t")
      const lines = { additions: Number(added) || 0, deletions: Number(deleted) || 0 }
      return path.length === 0 ? [] : [[path.join("\t"), lines] as const]
    }),
  )

/** References that a branch may start from, best first. */
export const BASE_REFS = [
  "refs/remotes/origin/main",
  "refs/remotes/origin/master",
  "refs/heads/main",
  "refs/heads/master",
] as const

/** The base of a branch: the default branch of the remote, else the best of the known references. */
export const chooseBase = (
  remoteHead: string,
  known: readonly string[],
  branch: string | undefined,
): string | undefined => {
  if (remoteHead !== "") return remoteHead
  const isMain = BASE_REFS.some((ref) => ref === `refs/heads/${branch ?? ""}`)
  // The main branch of a repository without a remote has no base.
  return BASE_REFS.find((ref) => known.includes(ref) && !(isMain && ref.startsWith("refs/heads/")))
}

/** The name that people know: `main` of `refs/remotes/origin/main`. */
export const baseName = (ref: string): string =>
  ref.replace(/^refs\/(?:heads|remotes\/[^/]+)\//, "")

/** Characters of a file's patch that are sent. */
export const MAX_PATCH = 64 * 1024

export const capPatch = (patch: string, most = MAX_PATCH): string =>
  patch.length <= most
    ? patch
    : `${patch.slice(0, most).toWellFormed()}\n[the patch is ${patch.length} characters long: the rest is not shown]\n`

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

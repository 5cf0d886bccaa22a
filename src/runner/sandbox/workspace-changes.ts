/** What git knows of the workspace: branch, commits, changed files and their patches, including files of other programs. */
import type { Outbound } from "../../wire/frames/index.ts"
import type { Git } from "./git.ts"
import { capPatch, countLines, type GitStatus, parseStatus, type StatusFile } from "./git-status.ts"

export interface WorkspacePatch {
  readonly path: string
  readonly status: StatusFile["status"]
  readonly additions: number
  readonly deletions: number
  readonly diff: string
}

export interface Workspace {
  /** Undefined if the workspace is not a repository. */
  readonly readStatus: () => Promise<GitStatus | undefined>
  /** The changed files with the numbers of their lines. */
  readonly readFiles: (status: GitStatus) => Promise<Outbound<"files-changed">["files"]>
  readonly readState: (status: GitStatus) => Promise<Outbound<"git-state">>
  /** The changes since the last commit: of tracked files, and all of untracked ones. Empty without a repository. */
  readonly readPatches: () => Promise<readonly WorkspacePatch[]>
}

/** More files than a person reads; the rest is left out of the patches. */
const MAX_FILES = 300
/** Files of a report whose lines are counted: each costs a process. */
const MAX_COUNTED = 40
/** Characters of all patches together: the answer to a client must fit into one row of the hub. */
const MAX_TOTAL = 400_000
/** The tree without files: what everything is compared with before the first commit. */
const EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

export const createWorkspace = (git: Git): Workspace => {
  const readStatus: Workspace["readStatus"] = async () => {
    const inside = await git(["rev-parse", "--is-inside-work-tree"], { accept: [0, 128] })
    if (inside.trim() !== "true") return undefined
    const args = ["status", "--porcelain=v2", "--branch", "--untracked-files=all", "-z"]
    return parseStatus(await git(args))
  }

  const patchOf = (head: string | undefined, { path, isTracked }: StatusFile): Promise<string> => {
    const plain = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"]
    return isTracked
      ? git([...plain, head ?? EMPTY_TREE, "--", `:(top,literal)${path}`])
      : git([...plain, "--no-index", "--", "/dev/null", path], { accept: [0, 1] })
  }

  const linesOf = async (head: string | undefined, file: StatusFile) =>
    countLines(await patchOf(head, file))

  return {
    readStatus,
    readFiles: async ({ head, files }) => {
      const counted: Outbound<"files-changed">["files"] = []
      for (const [index, file] of files.entries()) {
        const lines = index < MAX_COUNTED ? await linesOf(head, file) : {}
        counted.push({ path: file.path, status: file.status, ...lines })
      }
      return counted
    },
    readState: async ({ branch, head, ahead, behind, files }) => {
      const base = (
        await git(["symbolic-ref", "--short", "refs/remotes/origin/HEAD"], { accept: [0, 1, 128] })
      ).trim()
      const [hash, at, ...subject] =
        head === undefined ? [] : (await git(["log", "-1", "--format=%H%n%cI%n%s"])).split("\n")
      const count =
        base === "" || head === undefined
          ? undefined
          : Number(await git(["rev-list", "--count", `${base}..HEAD`], { accept: [0, 128] }))
      return {
        type: "git-state",
        ...(branch !== undefined && { branch }),
        ...(base !== "" && { baseBranch: base.replace(/^origin\//, "") }),
        ...(count !== undefined && Number.isInteger(count) && { commitCount: count }),
        ...(ahead !== undefined && { ahead }),
        ...(behind !== undefined && { behind }),
        dirtyCount: files.length,
        ...(hash !== undefined &&
          at !== undefined && {
            lastCommit: { hash, at, subject: subject.join("\n").trim().slice(0, 500) },
          }),
      }
    },
    readPatches: async () => {
      const status = await readStatus()
      if (!status) return []
      const patches: WorkspacePatch[] = []
      let left = MAX_TOTAL
      for (const file of status.files.slice(0, MAX_FILES)) {
        const patch = await patchOf(status.head, file)
        const shown = capPatch(patch)
        const diff = shown.length <= left ? shown : "[not shown: the patches are too long]\n"
        left -= diff.length
        patches.push({ path: file.path, status: file.status, ...countLines(patch), diff })
      }
      return patches
    },
  }
}

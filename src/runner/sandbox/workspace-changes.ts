/** What git knows of the workspace: branch, commits, changed files and their patches, including files of other programs. */
import type { Outbound } from "../../wire/frames/index.ts"
import type { Git } from "./git.ts"
import {
  BASE_REFS,
  baseName,
  capPatch,
  chooseBase,
  countLines,
  type GitStatus,
  parseNameStatus,
  parseNumstat,
  parseStatus,
  type StatusFile,
} from "./git-status.ts"

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
  /** The files that differ from the base of the branch, committed or not, with the numbers of their lines. */
  readonly readFiles: (status: GitStatus) => Promise<Outbound<"files-changed">["files"]>
  readonly readState: (status: GitStatus) => Promise<Outbound<"git-state">>
  /**
   * The changes since the branch left its base, committed or not, and all of untracked files. Without a base: since the last
   * commit. Empty without a repository.
   */
  readonly readPatches: () => Promise<readonly WorkspacePatch[]>
}

/** More files than a person reads; the rest is left out of the patches. */
const MAX_FILES = 300
/** Files of a report. */
const MAX_LISTED = 2000
/** Untracked files of a report whose lines are counted: each costs a process. */
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

  const plain = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"]

  /** From the workspace to the top of the repository, where the paths of a status start. */
  const pathToTop = async (): Promise<string> => (await git(["rev-parse", "--show-cdup"])).trim()

  const patchOf = (from: string, toTop: string, { path, isTracked }: StatusFile): Promise<string> =>
    isTracked
      ? git([...plain, from, "--", `:(top,literal)${path}`])
      : git(["-C", toTop, ...plain, "--no-index", "--", "/dev/null", path], { accept: [0, 1] })

  const baseOf = async ({ branch, head }: GitStatus): Promise<string | undefined> => {
    if (head === undefined) return undefined
    const remote = ["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]
    const remoteHead = (await git(remote, { accept: [0, 1, 128] })).trim()
    const list = ["for-each-ref", "--format=%(refname)", ...BASE_REFS]
    const known = remoteHead === "" ? (await git(list)).trim().split("\n") : []
    return chooseBase(remoteHead, known, branch)
  }

  /** The commit where the branch left its base; the last commit without a base or a common commit. */
  const startOf = async (status: GitStatus): Promise<string> => {
    const base = await baseOf(status)
    const common =
      base === undefined ? "" : await git(["merge-base", "HEAD", base], { accept: [0, 1, 128] })
    return common.trim() || (status.head ?? EMPTY_TREE)
  }

  const changedSince = async (
    from: string,
    { files }: GitStatus,
  ): Promise<readonly StatusFile[]> => {
    const tracked = parseNameStatus(await git([...plain, "--name-status", "-z", from]))
    const paths = new Set(tracked.map(({ path }) => path))
    return [...tracked, ...files.filter(({ path, isTracked }) => !isTracked && !paths.has(path))]
  }

  return {
    readStatus,
    readFiles: async (status) => {
      const from = await startOf(status)
      const toTop = await pathToTop()
      const files = (await changedSince(from, status)).slice(0, MAX_LISTED)
      const known = parseNumstat(await git([...plain, "--numstat", "-z", from]))
      const counted: Outbound<"files-changed">["files"] = []
      let left = MAX_COUNTED
      for (const file of files) {
        const isCounted = file.isTracked || left > 0
        if (!file.isTracked) left -= 1
        const lines =
          known.get(file.path) ?? (isCounted && countLines(await patchOf(from, toTop, file)))
        counted.push({ path: file.path, status: file.status, ...lines })
      }
      return counted
    },
    readState: async (status) => {
      const { branch, head, ahead, behind, files } = status
      const base = await baseOf(status)
      const [hash, at, ...subject] =
        head === undefined ? [] : (await git(["log", "-1", "--format=%H%n%cI%n%s"])).split("\n")
      const count =
        base === undefined
          ? undefined
          : Number(await git(["rev-list", "--count", `${base}..HEAD`], { accept: [0, 128] }))
      return {
        type: "git-state",
        ...(branch !== undefined && { branch }),
        ...(base !== undefined && { baseBranch: baseName(base) }),
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
      const from = await startOf(status)
      const toTop = await pathToTop()
      const files = await changedSince(from, status)
      const patches: WorkspacePatch[] = []
      let left = MAX_TOTAL
      for (const file of files.slice(0, MAX_FILES)) {
        const patch = await patchOf(from, toTop, file)
        const shown = capPatch(patch)
        const diff = shown.length <= left ? shown : "[not shown: the patches are too long]\n"
        left -= diff.length
        patches.push({ path: file.path, status: file.status, ...countLines(patch), diff })
      }
      return patches
    },
  }
}

/** A file's change as a unified patch, from either of the two formats of OpenCode. Pure. */
import { createTwoFilesPatch } from "diff"
import type { FileDiff } from "../opencode/client/client.ts"

export interface FilePatch {
  readonly path: string
  readonly status: "added" | "modified" | "deleted"
  readonly additions: number
  readonly deletions: number
  readonly diff: string
}

export const toPatch = ({
  file,
  status,
  additions,
  deletions,
  patch,
  before = "",
  after = "",
}: FileDiff): FilePatch => ({
  path: file,
  status,
  additions,
  deletions,
  diff: patch ?? createTwoFilesPatch(file, file, before, after),
})

/** Lists every file once. The patches of several prompts for one file are concatenated. */
export const mergePatches = (patches: readonly FilePatch[]): readonly FilePatch[] => {
  const byPath = new Map<string, FilePatch>()
  for (const patch of patches) {
    const earlier = byPath.get(patch.path)
    byPath.set(patch.path, earlier ? concatenate(earlier, patch) : patch)
  }
  return [...byPath.values()]
}

const concatenate = (earlier: FilePatch, later: FilePatch): FilePatch => ({
  path: later.path,
  status:
    later.status === "deleted" ? "deleted" : earlier.status === "added" ? "added" : later.status,
  additions: earlier.additions + later.additions,
  deletions: earlier.deletions + later.deletions,
  diff: `${earlier.diff.trimEnd()}\n${later.diff}`,
})

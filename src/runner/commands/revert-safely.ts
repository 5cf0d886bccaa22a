/**
 * Reverts a conversation only if OpenCode still has the snapshots it needs. It takes a missing snapshot for "the file did
 * not exist" and deletes the file.
 */
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { join } from "node:path"
import type { AgentClient } from "../opencode/client/client.ts"
import type { Git } from "../sandbox/git.ts"

export interface SnapshotStore {
  /** OpenCode's directory of snapshots. */
  readonly directory: string
  readonly git: Git
}

export const revertSafely = async (
  store: SnapshotStore,
  client: AgentClient,
  agentSessionId: string,
  messageId: string,
): Promise<{
  /** The files stay as they are: OpenCode makes snapshots of them in a git repository only. */
  readonly filesKept: boolean
}> => {
  const hashes = await client.snapshotsFrom(agentSessionId, messageId)
  const missing = hashes.length === 0 ? 0 : await countMissing(store, client, hashes)
  if (missing > 0) {
    throw new Error(
      `${missing} of ${hashes.length} snapshots of the files are missing (the disk was replaced, or they expired): ` +
        "nothing was reverted and no file was changed; restore the files with git",
    )
  }
  await client.revert(agentSessionId, messageId)
  return { filesKept: hashes.length === 0 && !(await client.project()).isRepository }
}

const countMissing = async (
  { directory, git }: SnapshotStore,
  client: AgentClient,
  hashes: readonly string[],
): Promise<number> => {
  const { id, worktree } = await client.project()
  const repository = snapshotRepository(join(directory, id), worktree)
  if (repository === undefined) return hashes.length
  const output = await git(["--git-dir", repository, "cat-file", "--batch-check"], {
    input: hashes.map((hash) => `${hash}^{tree}\n`).join(""),
  })
  const present = output.split("\n").filter((line) => /^[0-9a-f]+ tree \d+$/.test(line))
  return hashes.length - present.length
}

/** One repository for each worktree; OpenCode before 1.2 has one for the project. */
const snapshotRepository = (project: string, worktree: string): string | undefined => {
  const own = join(project, createHash("sha1").update(worktree).digest("hex"))
  return [own, project].find((path) => existsSync(join(path, "HEAD")))
}

/** Clones a repository into a child session's workspace and checks out the given commit and branch. */
import { execa } from "execa"
import { Refusal } from "../../handlers/handler-table.ts"

interface Source {
  readonly repoUrl?: string | undefined
  readonly branch?: string | undefined
  readonly ref?: string | undefined
}

const GIT_MS = 50_000

export const checkOut = async (
  workspace: string,
  { repoUrl = "", branch, ref }: Source,
): Promise<void> => {
  if (!/^(https?:\/\/|ssh:\/\/|git@|file:\/\/|\/)/.test(repoUrl)) {
    throw new Refusal("repoUrl: must be the URL of a repository")
  }
  const git = async (...args: string[]) => {
    const { exitCode, stderr } = await execa("git", args, {
      cwd: workspace,
      env: { GIT_TERMINAL_PROMPT: "0" },
      reject: false,
      timeout: GIT_MS,
    })
    return exitCode === 0 ? undefined : withoutCredentials(stderr)
  }
  const cloned = await git("clone", "--", repoUrl, ".")
  if (cloned !== undefined) throw new Refusal(`git clone failed: ${cloned}`)
  if (ref !== undefined) {
    const failed = await git("checkout", "--detach", ref)
    if (failed !== undefined) throw new Refusal(`git checkout ${ref} failed: ${failed}`)
  }
  if (branch === undefined) return
  // An existing branch is checked out; otherwise a new one starts at this commit.
  if ((await git("checkout", branch)) === undefined) return
  const failed = await git("checkout", "-b", branch)
  if (failed !== undefined) throw new Refusal(`git checkout -b ${branch} failed: ${failed}`)
}

const withoutCredentials = (text: unknown): string =>
  String(text)
    .replaceAll(/(:\/\/)[^\s/@]+@/g, "$1")
    .trim()
    .slice(-400)

/** Clones a repository into a child session's workspace and checks out the given commit and branch. */
import { hideCredentials } from "../../../lib/git-url.ts"
import { runCommand } from "../../../lib/run-command.ts"
import { Refusal } from "../../handlers/handler-table.ts"
import { checkSource, type Source } from "../../handlers/repository-source.ts"

const GIT_MS = 50_000

export const checkOut = async (
  workspace: string,
  { repoUrl = "", branch, ref }: Source,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> => {
  checkSource({ repoUrl, branch, ref })
  const git = async (...args: string[]) => {
    const { exitCode, stderr } = await runCommand("git", args, {
      cwd: workspace,
      env: { ...environment, GIT_TERMINAL_PROMPT: "0", GIT_ALLOW_PROTOCOL: "https:http:ssh" },
      timeoutMs: GIT_MS,
    }).catch((cause: unknown) => {
      throw new Refusal("git could not be started on the session agent's machine", { cause })
    })
    return exitCode === 0 ? undefined : hideCredentials(stderr).trim().slice(-400)
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

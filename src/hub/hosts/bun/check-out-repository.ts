/** Clones a repository into a child session's workspace and checks out the given commit and branch. */
import {
  GIT_NAME_RULE,
  GIT_URL_RULE,
  hideCredentials,
  isGitName,
  isGitUrl,
} from "../../../lib/git-url.ts"
import { runCommand } from "../../../lib/run-command.ts"
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
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> => {
  // The agent names the repository and the hub reads it with its own rights: a path of this machine is not a repository.
  if (!isGitUrl(repoUrl) || /^file:/i.test(repoUrl)) throw new Refusal(`repoUrl: ${GIT_URL_RULE}`)
  for (const [field, name] of Object.entries({ ref, branch })) {
    if (name !== undefined && !isGitName(name)) throw new Refusal(`${field}: ${GIT_NAME_RULE}`)
  }
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

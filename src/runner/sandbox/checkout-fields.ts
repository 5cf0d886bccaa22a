/** The fields that say which repository the sandbox has checked out; the session agent needs them: it may run where the checkout is not. */
import { ownerAndName } from "../../lib/git-url.ts"
import type { Git } from "./git.ts"

/** Requests about a repository of a git host, by default the one that is checked out. */
const ABOUT_A_REPOSITORY: readonly string[] = [
  "create-pr",
  "update-pr",
  "list-pull-requests",
  "inspect-pull-request",
  "read-repo-file",
]

/** The field `checkout` (owner/name) for the requests that have it. The address itself, which may hold a password, stays here. */
export const checkoutFields =
  (git: Git) =>
  async (type: string): Promise<{ readonly checkout?: string }> => {
    if (!ABOUT_A_REPOSITORY.includes(type)) return {}
    const origin = await git(["remote", "get-url", "origin"]).catch(() => "")
    const checkout = ownerAndName(origin)
    return checkout === undefined ? {} : { checkout }
  }

/** `git-credentials`: the token and the author that git uses from now on. Handled at once: a prompt that follows finds them. */
import type { Command } from "./command.ts"

export const gitCredentials: Command<"git-credentials"> = (
  { setGitCredentials },
  { token, userName, userEmail },
) => setGitCredentials({ token, userName, userEmail })

/** The credential helper that git starts: forwards git's request to the runner and prints the response. */
import type { Settings } from "../../settings/settings.ts"
import { askControl, ControlError, findControl, runnerDirOf } from "./control-socket.ts"
import { parseCredentialRequest } from "./repository-rules.ts"

const LIMIT_MS = 10_000

/** The lines for git. Empty if there is no credential: git then asks elsewhere or fails with its own error. */
export const answerGit = async (settings: Settings, request: string): Promise<string> => {
  // `store` and `erase` have no effect: this helper stores nothing.
  if (settings.operand !== "get") return ""
  const { protocol, host } = parseCredentialRequest(request)
  try {
    // The agent's tools have the API token in their environment; another shell reads the token file of its own user.
    const token = settings.environment["SANDPIPER_API_TOKEN"]
    // Sandboxes without a home of their own share one .gitconfig, which may name the helper of another one: the runner that
    // has started this git is asked in its place.
    const stateDir = (token && runnerDirOf(settings.environment)) || settings.stateDir
    const control = await findControl(stateDir, token)
    const { username, password } = await askControl(
      control,
      "/git-credential",
      { protocol, host },
      LIMIT_MS,
    )
    return `username=${String(username)}\npassword=${String(password)}\n`
  } catch (error) {
    if (error instanceof ControlError) return ""
    throw error
  }
}

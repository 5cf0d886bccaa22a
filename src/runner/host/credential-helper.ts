/** git's side of a password: what git asks on standard input, answered by the runner or, for other hosts, by nothing. */
import type { Settings } from "../../settings/settings.ts"
import { askControl, ControlError, findControl } from "./control-socket.ts"
import { parseCredentialRequest } from "./repository-rules.ts"

const LIMIT_MS = 10_000

/** The lines for git. Nothing to say is no failure: git then asks elsewhere, or gives up in its own words. */
export const answerGit = async (config: Settings, question: string): Promise<string> => {
  // `store` and `erase` would have it remember or forget; it holds nothing.
  if (config.operand !== "get") return ""
  const { protocol, host } = parseCredentialRequest(question)
  try {
    // The agent's tools carry a token of their own; a person's shell is let in by who it belongs to.
    const token = config.environment["SANDPIPER_API_TOKEN"]
    const control = await findControl(config.stateDir, token)
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

/** Why OpenCode did not come up, told apart: each kind is answered differently. */
import { describeError } from "../../../lib/log.ts"
import { AgentCallError, type AgentClient } from "../client/client.ts"
import type { FailureKind } from "./launch-state.ts"

export class LaunchError extends Error {
  override readonly name = "LaunchError"
  readonly kind: FailureKind
  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}

/** Health says nothing of the configuration; here an invalid one shows. */
export const checkConfig = async (client: AgentClient): Promise<void> => {
  try {
    await client.checkConfig()
  } catch (error) {
    const said = error instanceof AgentCallError && error.status !== undefined
    if (said)
      throw new LaunchError("config", `OpenCode refuses its configuration: ${error.message}`)
    throw new LaunchError("timeout", `OpenCode stopped answering: ${describeError(error)}`, error)
  }
}

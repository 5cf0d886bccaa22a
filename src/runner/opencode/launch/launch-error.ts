/** Errors of a launch. The launch state machine handles each kind differently. */
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

/** A health check succeeds even if the configuration is invalid; this call fails then. */
export const checkConfig = async (client: AgentClient): Promise<void> => {
  try {
    await client.checkConfig()
  } catch (error) {
    const hasResponse = error instanceof AgentCallError && error.status !== undefined
    if (hasResponse)
      throw new LaunchError("config", `OpenCode rejects its configuration: ${error.message}`)
    throw new LaunchError("timeout", `OpenCode stopped responding: ${describeError(error)}`, error)
  }
}

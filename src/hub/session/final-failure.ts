/** A failure that a retry cannot repair, for example work for a session that has ended. Effects give up at once. */

export class FinalFailure extends Error {
  override readonly name = "FinalFailure"
  readonly retryable = false
}

export const isFinal = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "retryable" in error && error.retryable === false

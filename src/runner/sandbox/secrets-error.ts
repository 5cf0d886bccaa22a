/** Why an operation on secrets failed; `message` is sent to the agent and never contains a value. */
export class SecretsError extends Error {
  override readonly name = "SecretsError"
  readonly reason: "bad-input" | "not-found" | "unavailable" | "timeout"
  constructor(reason: SecretsError["reason"], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** Why something with secrets was not done; `message` is told to the agent and never holds a value. */
export class SecretsError extends Error {
  override readonly name = "SecretsError"
  readonly reason: "bad-input" | "not-found" | "unavailable" | "timeout"
  constructor(reason: SecretsError["reason"], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

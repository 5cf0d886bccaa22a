/** The port of a session to chat services outside, such as Slack and Telegram. */

export interface ChatMessage {
  /** The same for every attempt to send it: `wasSent` looks for it. */
  readonly id: string
  readonly text: string
  readonly image?: { readonly base64: string; readonly mime: string; readonly name?: string }
}

export interface ChatServices {
  /** The longest text of one message, in UTF-16 units; `undefined` for a channel type that is not a configured service. */
  readonly maxTextLength: (channelType: string) => number | undefined
  /** Sends one message. Rejects with a `SendError`. */
  readonly send: (channelType: string, channelId: string, message: ChatMessage) => Promise<void>
  /**
   * Whether an attempt whose answer was lost has arrived: the service is asked for it. "unknown" if it cannot be asked.
   * Rejects with a `SendError`.
   */
  readonly wasSent: (
    channelType: string,
    channelId: string,
    message: ChatMessage,
  ) => Promise<boolean | "unknown">
}

interface SendErrorOptions {
  readonly retryable: boolean
  readonly retryAfterMs?: number | undefined
  readonly mayHaveArrived?: boolean
}

/**
 * A message was not accepted. `retryable` is false when another try would fail in the same way. `mayHaveArrived`: the
 * service may have accepted it, and only its answer was lost.
 */
export class SendError extends Error {
  override readonly name = "SendError"
  readonly retryable: boolean
  readonly retryAfterMs: number | undefined
  readonly mayHaveArrived: boolean

  constructor(message: string, options: SendErrorOptions) {
    super(message)
    this.mayHaveArrived = options.mayHaveArrived ?? false
    this.retryable = options.retryable
    this.retryAfterMs = options.retryAfterMs
  }
}

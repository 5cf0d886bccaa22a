/** The port of a session to chat services outside, such as Slack and Telegram. */

export interface ChatMessage {
  readonly text: string
  readonly image?: { readonly base64: string; readonly mime: string; readonly name?: string }
}

export interface ChatServices {
  /** The longest text of one message, in UTF-16 units; `undefined` for a channel type that is not a configured service. */
  readonly maxTextLength: (channelType: string) => number | undefined
  /** Sends one message. Rejects with a `SendError`. */
  readonly send: (channelType: string, channelId: string, message: ChatMessage) => Promise<void>
}

/** A message was not accepted. `retryable` is false when another try would fail in the same way. */
export class SendError extends Error {
  override readonly name = "SendError"
  readonly retryable: boolean
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: { retryable: boolean; retryAfterMs?: number | undefined }) {
    super(message)
    this.retryable = options.retryable
    this.retryAfterMs = options.retryAfterMs
  }
}

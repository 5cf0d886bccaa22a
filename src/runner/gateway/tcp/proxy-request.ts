/** One request and its answer, as whoever serves it sees them. */
import type { Answer } from "../http/response.ts"
import type { RequestHead } from "../http/head.ts"

/** What the client does during an exchange. */
export interface ClientListener {
  /** Bytes of the request's body, or of the socket once it is taken over. */
  readonly data: (bytes: Buffer) => void
  /** The body is complete; or, taken over, the client has said all it will say. */
  readonly end: () => void
  readonly gone: () => void
  readonly drained: () => void
}

/** One request and its answer. Once it is over, nothing it is asked to do has an effect. */
export interface ProxyRequest {
  readonly head: RequestHead
  readonly peer: string
  /** Lets the body come, in the form it is wanted. Until then it waits with the client. */
  readonly receive: (listener: ClientListener, form: "verbatim" | "decoded") => void
  readonly pause: () => void
  readonly resume: () => void
  /** False: wait for `drained`. */
  readonly write: (bytes: Uint8Array) => boolean
  /** The answer is complete; `keepAlive` when the client can tell where it ended. */
  readonly finish: (keepAlive: boolean) => void
  /** The answer cannot be completed: the client learns it by the loss of the connection. */
  readonly cut: () => void
  /** A whole answer at once. */
  readonly answer: (answer: Answer) => void
  /**
   * From here on the connection is no longer HTTP: bytes go to the listener as they come. `farewell` is what is said
   * when the gateway ends it, if something can be said now.
   */
  readonly takeOver: (listener: ClientListener, farewell: () => Uint8Array | undefined) => RawClient
  /** Something between answers, such as 100 or 102. */
  readonly interim: (line: string) => void
  /** The client is still there and has not been answered yet. */
  readonly isOpen: () => boolean
  readonly bytesIn: () => number
  readonly bytesOut: () => number
  /** For the count: who it was for and how it ended. */
  note: string
  status: number
}

export interface RawClient {
  readonly write: (bytes: Uint8Array) => boolean
  /** Nothing more will be written; what waits still goes out. */
  readonly finish: () => void
  readonly end: () => void
  readonly resume: () => void
  /** Bytes that the client has not taken yet. */
  readonly waiting: () => number
}

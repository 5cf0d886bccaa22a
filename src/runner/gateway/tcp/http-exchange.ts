/** One request and its response, as a handler sees them: the proxy, the API, and the gateway's own pages. */
import type { BodyForm } from "../http/body.ts"
import type { RequestHead } from "../http/head.ts"
import type { HttpResponse } from "../http/response.ts"

/** Called for what the client does during an exchange. */
export interface ClientListener {
  /** Bytes of the request's body; after `takeOver`, of the connection. */
  readonly data: (bytes: Buffer) => void
  /** The body is complete; after `takeOver`, the client has closed its sending side. */
  readonly end: () => void
  /** The client is gone, or the gateway has ended the exchange. */
  readonly closed: () => void
  /** Everything that was written has been accepted by the socket. */
  readonly drained: () => void
}

/** After the exchange is over, its methods have no effect. */
export interface HttpExchange {
  readonly head: RequestHead
  /** The client's IP address. */
  readonly peer: string
  /** Starts reading the body. Until then it stays with the client. */
  readonly receive: (listener: ClientListener, form: BodyForm) => void
  readonly pause: () => void
  readonly resume: () => void
  /** False: stop writing until `drained`. */
  readonly write: (bytes: Uint8Array) => boolean
  /** The response is complete. `delimited`: its length or chunks show the client where it ended. */
  readonly finish: (delimited: boolean) => void
  /** The response cannot be completed: the connection is reset, so that the client notices. */
  readonly abort: () => void
  /** Sends a whole response. */
  readonly respond: (response: HttpResponse) => void
  /**
   * Ends HTTP on this connection: bytes go to the listener as they arrive. `closeMessage` returns the bytes to send when
   * the gateway ends the connection, or nothing if none can be sent at that moment.
   */
  readonly takeOver: (
    listener: ClientListener,
    closeMessage: () => Uint8Array | undefined,
  ) => RawClient
  /** Sends an interim response, such as `100 Continue` or `102 Processing`. */
  readonly interim: (line: string) => void
  /** The client is connected and its response is not complete. */
  readonly isOpen: () => boolean
  readonly bytesIn: () => number
  /** Bytes that a client has sent over its WebSocket, without pings and pongs. */
  readonly messageBytes: () => number
  readonly bytesOut: () => number
  /** The request had a valid token or cookie: its connection is not given up for a new one. */
  isTrusted: boolean
  /** Name of the route and status of the response, for the metrics. */
  route: string
  status: number
}

/** The client of an upgraded connection. */
export interface RawClient {
  readonly write: (bytes: Uint8Array) => boolean
  /** Sends FIN after the bytes that are still queued. */
  readonly finish: () => void
  readonly end: () => void
  /** Bytes that the client has not accepted yet. */
  readonly pendingBytes: () => number
}

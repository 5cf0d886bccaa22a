/**
 * One client connection as a pure machine: which bytes are a head, which are a body, when the next request may begin,
 * and when the connection ends. Requests on a connection are served one after another.
 */
import { type BodyForm, readBody, type BodyState, startBody } from "../http/body.ts"
import { HttpError } from "../http/fields.ts"
import { HEAD_LIMIT, parseRequestHead, type RequestHead } from "../http/head.ts"

export type ConnectionState =
  /** Between requests. `since` is when the wait began or, once `held` has bytes, when the first of them arrived. */
  | { readonly name: "head"; readonly held: Buffer | undefined; readonly since: number }
  | RequestState
  /** After an upgrade: bytes pass in both directions and are not interpreted. */
  | { readonly name: "raw"; readonly paused: boolean }
  /** No more requests; the end of the response has not been accepted by the socket yet. Received bytes are dropped. */
  | { readonly name: "flushing"; readonly clientEnded: boolean }
  /** The response is sent. Received bytes are read and dropped until `until`, because a reset would destroy the response. */
  | { readonly name: "lingering"; readonly until: number }
  /** The socket was told to close. */
  | { readonly name: "closed" }

interface RequestState {
  readonly name: "request"
  readonly head: RequestHead
  /** `undefined` until the handler asks for the body. */
  readonly body: BodyState | undefined
  /** Received bytes that are not consumed yet: a body that was not asked for, or the next request. */
  readonly held: Buffer | undefined
  readonly paused: boolean
  /** The server shuts down: the connection closes after this response. */
  readonly retiring: boolean
  readonly responseStarted: boolean
}

/** `at` is the current time in milliseconds. */
export type ConnectionEvent =
  | { readonly type: "received"; readonly bytes: Buffer; readonly at: number }
  /** The client has closed its sending side; `pendingBytes` of a response are not sent yet. */
  | { readonly type: "client-ended"; readonly pendingBytes: number }
  | { readonly type: "socket-closed" }
  /** The socket has accepted everything that was written. */
  | { readonly type: "flushed"; readonly at: number }
  /** Once a second. `activeAt` is when bytes last moved in either direction. */
  | {
      readonly type: "tick"
      readonly at: number
      readonly activeAt: number
      readonly pendingBytes: number
    }
  | { readonly type: "body-wanted"; readonly form: BodyForm }
  | { readonly type: "pause" }
  | { readonly type: "resume" }
  | { readonly type: "response-started" }
  /** `delimited`: the client can tell where the response ended, so the connection can be kept. */
  | { readonly type: "response-complete"; readonly delimited: boolean; readonly at: number }
  | { readonly type: "response-aborted" }
  | { readonly type: "upgraded" }
  /** The server shuts down. */
  | { readonly type: "retire" }
  /** The server drops this connection; `closeMessageSent`: the client was sent the reason. */
  | { readonly type: "drop"; readonly closeMessageSent: boolean }
  | { readonly type: "close" }

export type ConnectionEffect =
  | { readonly do: "begin-request"; readonly head: RequestHead; readonly headBytes: number }
  /** Hands body bytes to the handler; `consumed` counts them as they were received. */
  | {
      readonly do: "deliver"
      readonly pieces: readonly Buffer[]
      readonly consumed: number
      readonly isLast: boolean
    }
  | { readonly do: "end-input" }
  /** The request is over. `abandon` also tells the handler, which has not ended it. */
  | { readonly do: "end-request" }
  | { readonly do: "abandon-request" }
  | { readonly do: "pause-reading" }
  | { readonly do: "resume-reading" }
  /** Answers bytes that are not a valid request. */
  | { readonly do: "refuse"; readonly error: HttpError }
  /** Sends FIN after the bytes that are still queued. */
  | { readonly do: "finish-writing" }
  | { readonly do: "close-socket" }
  | { readonly do: "terminate-socket" }

export type ConnectionStep = readonly [ConnectionState, readonly ConnectionEffect[]]

/**
 * How readily a connection is given up when there is no room for a new one: the lowest number first. `undefined`: never.
 * `isTrusted`: a request on it had a valid token or cookie.
 */
export const evictionRank = (
  state: ConnectionState,
  isTrusted: boolean,
  at: number,
): number | undefined => {
  switch (state.name) {
    case "closed":
    case "lingering":
      return 0
    case "flushing":
      return isTrusted ? 4 : 0
    case "head":
      // A client that has just connected has not had the time to show its token.
      if (at - state.since < FRESH_MS) return 4
      return isTrusted ? 3 : 1
    case "request":
    case "raw":
      return isTrusted ? undefined : 2
  }
}

const FRESH_MS = 2000
const HEAD_MS = 10_000
const IDLE_MS = 75_000
const BODY_STALL_MS = 60_000
const RESPONSE_STALL_MS = 10 * 60_000
const LINGER_MS = 1000
const HEAD_END = Buffer.from("\r\n\r\n")
const CR = 13
const LF = 10

const CLOSED: ConnectionState = { name: "closed" }
const FLUSHING: ConnectionState = { name: "flushing", clientEnded: false }
const NONE: readonly ConnectionEffect[] = []
const PAUSE: ConnectionEffect = { do: "pause-reading" }
const RESUME: ConnectionEffect = { do: "resume-reading" }
const END_REQUEST: ConnectionEffect = { do: "end-request" }
const ABANDON: ConnectionEffect = { do: "abandon-request" }
const FINISH: ConnectionEffect = { do: "finish-writing" }
const CLOSE: ConnectionEffect = { do: "close-socket" }
const TERMINATE: ConnectionEffect = { do: "terminate-socket" }
const END_INPUT: ConnectionEffect = { do: "end-input" }
const EMPTY_BODY: ConnectionEffect = { do: "deliver", pieces: [], consumed: 0, isLast: true }

export const newConnection = (at: number): ConnectionState => ({
  name: "head",
  held: undefined,
  since: at,
})

export const stepConnection = (state: ConnectionState, event: ConnectionEvent): ConnectionStep => {
  if (event.type === "socket-closed") {
    return [CLOSED, state.name === "request" || state.name === "raw" ? [ABANDON] : NONE]
  }
  if (event.type === "close") return close(state)
  if (event.type === "drop") return drop(state, event.closeMessageSent)
  switch (state.name) {
    case "head":
      return stepHead(state, event)
    case "request":
      return stepRequest(state, event)
    case "raw":
      return stepRaw(state, event)
    case "flushing":
      return stepFlushing(state, event)
    case "lingering": {
      const isOver =
        event.type === "client-ended" || (event.type === "tick" && event.at > state.until)
      return isOver ? [CLOSED, [CLOSE]] : [state, NONE]
    }
    case "closed":
      return [state, event.type === "tick" ? [CLOSE] : NONE]
  }
}

const stepHead = (
  state: Extract<ConnectionState, { name: "head" }>,
  event: ConnectionEvent,
): ConnectionStep => {
  switch (event.type) {
    case "received":
      return state.held === undefined
        ? readHead(event.bytes, event.at)
        : readHead(Buffer.concat([state.held, event.bytes]), state.since)
    case "client-ended":
      // The last response is still being sent and must not be cut short.
      return event.pendingBytes > 0
        ? [{ name: "flushing", clientEnded: true }, [FINISH]]
        : [CLOSED, [CLOSE]]
    case "retire":
      return [FLUSHING, [FINISH]]
    case "tick": {
      const waitedMs = event.at - state.since
      if (state.held !== undefined && waitedMs > HEAD_MS) {
        return refuse(new HttpError(408, "the head took too long"))
      }
      return waitedMs > IDLE_MS ? [CLOSED, [CLOSE]] : [state, NONE]
    }
    default:
      return [state, NONE]
  }
}

/** Begins the request at the start of `received`, if its head is complete. `since` is when its first byte arrived. */
const readHead = (received: Buffer, since: number): ConnectionStep => {
  const bytes = skipEmptyLines(received)
  const end = bytes.indexOf(HEAD_END)
  // Without its end, the head is at least as long as the bytes, less a part of the end.
  const length = end === -1 ? bytes.length - HEAD_END.length + 1 : end
  if (length > HEAD_LIMIT) return refuse(new HttpError(431, "the head is too long"))
  if (end === -1) {
    return [{ name: "head", held: bytes.length === 0 ? undefined : bytes, since }, NONE]
  }
  const headBytes = end + HEAD_END.length
  try {
    const head = parseRequestHead(bytes.toString("latin1", 0, end))
    const next: RequestState = {
      name: "request",
      head,
      body: undefined,
      held: headBytes === bytes.length ? undefined : bytes.subarray(headBytes),
      paused: false,
      retiring: false,
      responseStarted: false,
    }
    return [next, [{ do: "begin-request", head, headBytes }]]
  } catch (error) {
    return refuse(asHttpError(error))
  }
}

const stepRequest = (state: RequestState, event: ConnectionEvent): ConnectionStep => {
  switch (event.type) {
    case "received":
      return receive(state, event.bytes)
    case "body-wanted":
      return startReading(state, event.form)
    case "pause":
      return state.paused ? [state, NONE] : [{ ...state, paused: true }, [PAUSE]]
    case "resume":
      return state.paused ? [{ ...state, paused: false }, [RESUME]] : [state, NONE]
    case "response-started":
      return [{ ...state, responseStarted: true }, NONE]
    case "response-complete":
      return completeResponse(state, event.delimited, event.at)
    case "response-aborted":
      return [CLOSED, [END_REQUEST, TERMINATE]]
    case "upgraded":
      return [{ name: "raw", paused: false }, upgradeEffects(state)]
    case "client-ended":
      // A client that has nothing more to send cannot be told apart from one that is gone.
      return [CLOSED, [ABANDON, CLOSE]]
    case "retire":
      return [{ ...state, retiring: true }, NONE]
    case "tick":
      return tickRequest(state, event)
    default:
      return [state, NONE]
  }
}

const receive = (state: RequestState, bytes: Buffer): ConnectionStep => {
  const isReading = state.body !== undefined && state.body.kind !== "done"
  if (isReading && state.held === undefined) return feed(state, bytes)
  const held = state.held === undefined ? bytes : Buffer.concat([state.held, bytes])
  if (isReading) return feed(state, held)
  // The next request, or a body that was not asked for: a little is held, the rest waits in the client.
  const isTooMuch = held.length >= HEAD_LIMIT || state.head.framing.kind !== "none"
  return isTooMuch && !state.paused
    ? [{ ...state, held, paused: true }, [PAUSE]]
    : [{ ...state, held }, NONE]
}

const startReading = (state: RequestState, form: BodyForm): ConnectionStep => {
  if (state.body !== undefined) return [state, NONE]
  const body = startBody(state.head.framing, form)
  if (body.kind === "done") return [{ ...state, body }, [EMPTY_BODY]]
  const reading: RequestState = { ...state, body }
  const [next, effects] = state.held === undefined ? [reading, NONE] : feed(reading, state.held)
  return next.name === "request" && next.paused
    ? [{ ...next, paused: false }, [...effects, RESUME]]
    : [next, effects]
}

const feed = (state: RequestState, bytes: Buffer): ConnectionStep => {
  if (state.body === undefined) return [state, NONE]
  try {
    const { state: body, pieces, consumed } = readBody(state.body, bytes)
    const held = consumed === bytes.length ? undefined : bytes.subarray(consumed)
    return [
      { ...state, body, held },
      [{ do: "deliver", pieces, consumed, isLast: body.kind === "done" }],
    ]
  } catch (error) {
    return refuseBody(state, asHttpError(error))
  }
}

const completeResponse = (state: RequestState, delimited: boolean, at: number): ConnectionStep => {
  const canContinue = delimited && state.head.keepAlive && isBodyComplete(state) && !state.retiring
  const ended = state.paused ? [END_REQUEST, RESUME] : [END_REQUEST]
  if (!canContinue) return [FLUSHING, [...ended, FINISH]]
  if (state.held === undefined) return [newConnection(at), ended]
  const [next, effects] = readHead(state.held, at)
  return [next, [...ended, ...effects]]
}

export const isBodyComplete = ({ body, head }: RequestState): boolean =>
  body === undefined ? head.framing.kind === "none" : body.kind === "done"

const upgradeEffects = ({ held, paused }: RequestState): readonly ConnectionEffect[] => {
  const early: readonly ConnectionEffect[] =
    held === undefined
      ? NONE
      : [{ do: "deliver", pieces: [held], consumed: held.length, isLast: false }]
  return paused ? [...early, RESUME] : early
}

const tickRequest = (
  state: RequestState,
  { at, activeAt, pendingBytes }: Extract<ConnectionEvent, { type: "tick" }>,
): ConnectionStep => {
  const silentMs = at - activeAt
  const isReceiving = state.body !== undefined && state.body.kind !== "done" && !state.paused
  if (isReceiving && silentMs > BODY_STALL_MS && !state.responseStarted) {
    return refuseBody(state, new HttpError(408, "the body took too long"))
  }
  const isBlocked = state.paused || pendingBytes > 0
  return isBlocked && silentMs > RESPONSE_STALL_MS ? [CLOSED, [ABANDON, TERMINATE]] : [state, NONE]
}

const stepRaw = (
  state: Extract<ConnectionState, { name: "raw" }>,
  event: ConnectionEvent,
): ConnectionStep => {
  switch (event.type) {
    case "received": {
      const { bytes } = event
      return [state, [{ do: "deliver", pieces: [bytes], consumed: bytes.length, isLast: false }]]
    }
    case "client-ended":
      return [state, [END_INPUT]]
    case "pause":
      return state.paused ? [state, NONE] : [{ name: "raw", paused: true }, [PAUSE]]
    case "resume":
      return state.paused ? [{ name: "raw", paused: false }, [RESUME]] : [state, NONE]
    case "response-aborted":
      return [CLOSED, [END_REQUEST, TERMINATE]]
    default:
      return [state, NONE]
  }
}

const stepFlushing = (
  state: Extract<ConnectionState, { name: "flushing" }>,
  event: ConnectionEvent,
): ConnectionStep => {
  switch (event.type) {
    case "flushed":
      // The deadline is fixed here: a client that keeps sending does not extend it.
      return state.clientEnded
        ? [CLOSED, [CLOSE]]
        : [{ name: "lingering", until: event.at + LINGER_MS }, NONE]
    case "client-ended":
      return [{ name: "flushing", clientEnded: true }, NONE]
    case "tick":
      return event.at - event.activeAt > RESPONSE_STALL_MS ? [CLOSED, [CLOSE]] : [state, NONE]
    default:
      return [state, NONE]
  }
}

const close = (state: ConnectionState): ConnectionStep => [
  CLOSED,
  state.name === "request" || state.name === "raw" ? [ABANDON, CLOSE] : [CLOSE],
]

const drop = (state: ConnectionState, closeMessageSent: boolean): ConnectionStep => {
  const isServing = state.name === "request" || state.name === "raw"
  const ended = isServing ? [ABANDON] : NONE
  if (!closeMessageSent) return [CLOSED, [...ended, TERMINATE]]
  return [FLUSHING, isServing && state.paused ? [...ended, RESUME, FINISH] : [...ended, FINISH]]
}

const refuse = (error: HttpError): ConnectionStep => [FLUSHING, [{ do: "refuse", error }, FINISH]]

/** After a malformed body the start of the next request is unknown, so the connection always ends. */
const refuseBody = (state: RequestState, error: HttpError): ConnectionStep => {
  if (state.responseStarted) return [CLOSED, [ABANDON, TERMINATE]]
  const resume = state.paused ? [RESUME] : NONE
  return [FLUSHING, [ABANDON, { do: "refuse", error }, ...resume, FINISH]]
}

const asHttpError = (error: unknown): HttpError => {
  if (error instanceof HttpError) return error
  throw error
}

/** Some clients send an empty line after a body. It is not part of a request. */
const skipEmptyLines = (bytes: Buffer): Buffer => {
  let start = 0
  while (bytes[start] === CR && bytes[start + 1] === LF) start += 2
  return start === 0 ? bytes : bytes.subarray(start)
}

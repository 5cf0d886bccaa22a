/** Joins a client's and a backend's WebSocket as bytes: frames, close codes and extensions pass unchanged, with backpressure. */
import type { Clock } from "../../../lib/clock.ts"
import type { RequestHead } from "../http/head.ts"
import { closeFrame, createFrameFinder } from "../http/ws-frames.ts"
import type { HttpExchange } from "../tcp/http-exchange.ts"
import type { Upstream } from "../tcp/backend-connections.ts"

/** After one end has closed, the other has 10 s to close too, or 61 times that while queued bytes remain for either. */
const CLOSE_MS = 10_000
const FLUSH_ROUNDS = 60
/** 1012 means "service restart" and asks the client to reconnect. 1001 is also sent when a user leaves a page. */
const RESTORED = closeFrame(1012, "the sandbox was restored: connect again")

/** `early` are the backend's first bytes, which were sent to the client with the head. */
export const joinSockets = (
  exchange: HttpExchange,
  upstream: Upstream,
  early: Buffer,
  clock: Clock,
  onClosed: () => void,
): void => {
  const frames = createFrameFinder()
  frames.feed(early)
  let clientEnded = false
  let backendEnded = false
  let cancel = () => {}
  let isClosed = false

  const finish = () => {
    if (isClosed) return
    isClosed = true
    cancel()
    upstream.end()
    client.end()
    onClosed()
  }
  const isFlushed = () => client.pendingBytes() === 0 && upstream.writer.pendingBytes() === 0
  const closeSoon = (rounds = FLUSH_ROUNDS) => {
    cancel()
    if (clientEnded && backendEnded && isFlushed()) return finish()
    cancel = clock.after(CLOSE_MS, () => {
      if (rounds > 0 && !isFlushed()) closeSoon(rounds - 1)
      else finish()
    })
  }
  const endBackend = () => {
    if (backendEnded) return
    backendEnded = true
    client.finish()
    closeSoon()
  }
  const drained = (resume: () => void) => () => {
    resume()
    if (clientEnded && backendEnded) closeSoon()
  }

  // Before `takeOver`, which may deliver the client's first bytes at once.
  upstream.listen({
    data: (bytes) => {
      frames.feed(bytes)
      if (!client.write(bytes)) upstream.pause()
    },
    end: endBackend,
    closed: endBackend,
    drained: drained(exchange.resume),
  })
  const client = exchange.takeOver(
    {
      data: (bytes) => {
        if (!upstream.writer.write(bytes)) exchange.pause()
      },
      end: () => {
        clientEnded = true
        upstream.writer.finish()
        closeSoon()
      },
      closed: finish,
      drained: drained(upstream.resume),
    },
    // Inside a frame, the close frame would be read as part of it.
    () => (frames.isBetween() ? RESTORED : undefined),
  )
}

/** Any other request for an upgrade is served as plain HTTP. */
export const asksForWebSocket = (head: RequestHead): boolean =>
  head.upgrade === "websocket" &&
  head.method === "GET" &&
  head.version === "1.1" &&
  head.framing.kind === "none" &&
  head.headers.some(({ key }) => key === "sec-websocket-key")

/**
 * A page of another site must not use the person's cookie. Browsers always send `Origin` here, so a request without it
 * does not come from a page.
 */
export const isOriginAllowed = (head: RequestHead, allowed: readonly string[]): boolean => {
  const origins = head.headers.filter(({ key }) => key === "origin")
  if (origins.length === 0) return true
  const [origin] = origins
  if (origin === undefined || origins.length > 1 || !URL.canParse(origin.value)) return false
  if (allowed.includes(origin.value.toLowerCase())) return true
  const url = new URL(origin.value)
  if (url.protocol !== "http:" && url.protocol !== "https:") return false
  return (
    url.origin.toLowerCase() === origin.value.toLowerCase() && url.host === ownHost(head.host, url)
  )
}

/** The request's host without the default port of the origin's scheme. */
const ownHost = (host: string, url: URL): string => {
  const own = `${url.protocol}//${host}`
  return URL.canParse(own) ? new URL(own).host : ""
}

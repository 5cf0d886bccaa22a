/** Joins two sockets byte by byte, so that frames, close codes and extensions pass as they are and neither end is outrun. */
import type { Clock } from "../../../lib/clock.ts"
import type { RequestHead } from "../http/head.ts"
import { closeFrame, createFrameFinder } from "../http/ws-frames.ts"
import type { ProxyRequest } from "../tcp/proxy-request.ts"
import type { Upstream } from "../tcp/backend-connections.ts"

/** When one end has hung up, the other has this long to do the same, and so often as long to take what waits for it. */
const HANG_UP_MS = 10_000
const PATIENCE = 60
/** 1012, "service restart", is the code that asks a client to come again; 1001 is also said by a page that is left. */
const FAREWELL = closeFrame(1012, "the sandbox was restored: connect again")

/** `early` is what the backend has said already, and the client has been told. */
export const splice = (
  exchange: ProxyRequest,
  upstream: Upstream,
  early: Buffer,
  clock: Clock,
  over: () => void,
): void => {
  const frames = createFrameFinder()
  frames.feed(early)
  let clientDone = false
  let backendDone = false
  let cancel = () => {}
  let isOver = false

  const finish = () => {
    if (isOver) return
    isOver = true
    cancel()
    upstream.end()
    client.end()
    over()
  }
  const isFlushed = () => client.waiting() === 0 && upstream.outlet.waiting() === 0
  const hangUp = (patience = PATIENCE) => {
    cancel()
    if (clientDone && backendDone && isFlushed()) return finish()
    cancel = clock.after(HANG_UP_MS, () => {
      if (patience > 0 && !isFlushed()) hangUp(patience - 1)
      else finish()
    })
  }
  const backendLeft = () => {
    if (backendDone) return
    backendDone = true
    client.finish()
    hangUp()
  }
  const drained = (resume: () => void) => () => {
    resume()
    if (clientDone && backendDone) hangUp()
  }

  // Set before the client is taken over, which may bring its first bytes at once.
  upstream.listen({
    data: (bytes) => {
      frames.feed(bytes)
      if (!client.write(bytes)) upstream.pause()
    },
    end: backendLeft,
    gone: backendLeft,
    drained: drained(exchange.resume),
  })
  const client = exchange.takeOver(
    {
      data: (bytes) => {
        if (!upstream.outlet.write(bytes)) exchange.pause()
      },
      end: () => {
        clientDone = true
        upstream.outlet.finish()
        hangUp()
      },
      gone: finish,
      drained: drained(upstream.resume),
    },
    // In the middle of a frame it would be read as part of it.
    () => (frames.isBetween() ? FAREWELL : undefined),
  )
}

/** A WebSocket by all its signs; anything else that asks to be upgraded is answered as plain HTTP. */
export const asksForWebSocket = (head: RequestHead): boolean =>
  head.upgrade === "websocket" &&
  head.method === "GET" &&
  head.version === "1.1" &&
  head.framing.kind === "none" &&
  head.headers.some(({ key }) => key === "sec-websocket-key")

/**
 * A page of another site must not speak with the person's cookie. Browsers always say where a page comes from;
 * what says nothing is no browser.
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

/** The host as a URL of this scheme writes it: without the port that goes without saying. */
const ownHost = (host: string, url: URL): string => {
  const own = `${url.protocol}//${host}`
  return URL.canParse(own) ? new URL(own).host : ""
}

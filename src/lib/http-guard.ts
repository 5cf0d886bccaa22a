/**
 * Keeps a Bun server from filling up with requests that do not come to their end: a deadline for heads and for connections
 * without a request, and a limit of unfinished bodies per network address. The reader of bodies has their deadline.
 */
import type { Server } from "bun"
import { peerOf } from "./network-peer.ts"

type BunServer = Pick<Server<unknown>, "timeout" | "requestIP">

export interface HttpGuard {
  /** Handles a request; its body counts as unfinished until it is read, cancelled, or the request is answered. */
  readonly handle: <Answer extends Response | undefined>(
    server: BunServer,
    request: Request,
    run: (guarded: Request) => Promise<Answer>,
  ) => Promise<Answer | Response>
  /** The network address that a guarded request came from. */
  readonly addressOf: (guarded: Request) => string | undefined
  /** The request as the server knows it. */
  readonly originalOf: (guarded: Request) => Request
}

/** Time for the head of a request, and between two requests of a connection. */
export const IDLE_SECONDS = 60
/** Far more than one client sends at a time; a proxy in front of the hub has one address for all of them. */
const MOST_OPEN_BODIES = 64

export const createHttpGuard = (): HttpGuard => {
  const unfinished = new Map<string, number>()
  const origins = new WeakMap<
    Request,
    { readonly original: Request; readonly address: string | undefined }
  >()
  const take = (peer: string): (() => void) | undefined => {
    const count = unfinished.get(peer) ?? 0
    if (count >= MOST_OPEN_BODIES) return undefined
    unfinished.set(peer, count + 1)
    let isOpen = true
    return () => {
      if (!isOpen) return
      isOpen = false
      const left = (unfinished.get(peer) ?? 1) - 1
      if (left === 0) unfinished.delete(peer)
      else unfinished.set(peer, left)
    }
  }
  return {
    handle: async (server, request, run) => {
      const address = server.requestIP(request)?.address
      const release = request.body ? take(peerOf(address ?? "")) : () => {}
      if (!release) return tooManyBodies()
      const guarded = request.body ? withBody(request, watch(request.body, release)) : request
      origins.set(guarded, { original: request, address })
      // The answer may take its time: the start of a sandbox, a stream of events.
      server.timeout(request, 0)
      let isStream = false
      try {
        const response = await run(guarded)
        isStream = response?.headers.get("content-type")?.startsWith("text/event-stream") === true
        return response
      } finally {
        release()
        // The setting stays with the connection, also for its next request.
        if (!isStream) server.timeout(request, IDLE_SECONDS)
      }
    },
    addressOf: (guarded) => origins.get(guarded)?.address,
    originalOf: (guarded) => origins.get(guarded)?.original ?? guarded,
  }
}

const tooManyBodies = () =>
  Response.json(
    {
      ok: false,
      error: { code: "http-429", message: "too many unfinished requests come from this address" },
    },
    { status: 429, headers: { "retry-after": "1", connection: "close" } },
  )

const withBody = (request: Request, body: ReadableStream<Uint8Array>): Request =>
  new Request(request.url, {
    method: request.method,
    headers: request.headers,
    signal: request.signal,
    body,
  })

/** The same bytes; `done` is called when no more of them are waited for. */
const watch = (body: ReadableStream<Uint8Array>, done: () => void): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done: isLast, value } = await reader.read()
          if (!isLast) return controller.enqueue(value)
          done()
          controller.close()
        } catch (error) {
          done()
          controller.error(error)
        }
      },
      cancel: (reason) => {
        done()
        return reader.cancel(reason)
      },
    },
    // Nothing is read before it is asked for.
    { highWaterMark: 0 },
  )
}

/**
 * A loopback proxy that adds provider keys to model calls, so that neither the agent's environment nor its files hold one.
 * The agent shows this boot's broker token in place of a key; the token is worth nothing outside the sandbox.
 */
import { sameText } from "../../lib/constant-time.ts"
import type { Log } from "../../lib/log.ts"
import {
  credentialOf,
  responseHeaders,
  targetOf,
  type Upstream,
  upstreamHeaders,
} from "./upstreams.ts"

export interface KeyBrokerOptions {
  /** What the agent shows in place of a provider's key. */
  readonly token: string
  /** Any free one if absent. */
  readonly port?: number
  readonly log: Log
  /** An HTTP proxy for outgoing calls, when the machine has one. */
  readonly proxyUrl?: string
}

export interface KeyBroker {
  readonly port: number
  /** Replaces all providers: a key that is not in the new set is forgotten. */
  readonly setUpstreams: (upstreams: ReadonlyMap<string, Upstream>) => void
  readonly activeCalls: () => number
  readonly stop: () => Promise<void>
}

/** An error response is read whole to take the key out of it; a longer one is cut. */
const MAX_ERROR_BYTES = 256 * 1024

export const startKeyBroker = ({ token, port = 0, log, proxyUrl }: KeyBrokerOptions): KeyBroker => {
  let upstreams: ReadonlyMap<string, Upstream> = new Map()

  const forward = async (request: Request): Promise<Response> => {
    if (!sameText(credentialOf(request.headers), token))
      return refusal(401, "the broker's token is expected in place of a provider key")
    const { pathname, search } = new URL(request.url)
    const target = targetOf(request.method, pathname, search, upstreams)
    if (!target.ok) return refusal(target.status, target.message)
    const upstream = upstreams.get(target.provider)
    if (!upstream) return refusal(404, `no key is configured for provider "${target.provider}"`)
    let response: Response
    try {
      response = await fetch(target.url, {
        method: request.method,
        headers: upstreamHeaders(request.headers, upstream),
        ...(request.body && { body: request.body }),
        // A redirect would carry the key to another host.
        redirect: "manual",
        // The agent's client gives up by closing its connection; the provider must stop then.
        signal: request.signal,
        // Bytes pass as they are: the agent's client unpacks them itself.
        decompress: false,
        // Models may think for minutes before the first byte. The turn has budgets of its own.
        timeout: false,
        ...(proxyUrl !== undefined && { proxy: proxyUrl }),
      } as RequestInit)
    } catch (error) {
      const { host } = new URL(upstream.baseUrl)
      log.warn("broker.unreachable", { provider: target.provider, host })
      const code = (error as { code?: unknown }).code
      const why = typeof code === "string" ? ` (${code})` : ""
      return refusal(502, `${target.provider} at ${host} cannot be reached${why}`)
    }
    const headers = responseHeaders(response.headers)
    if (response.ok) return new Response(response.body, { status: response.status, headers })
    if (response.status >= 300 && response.status < 400)
      return refusal(502, `${target.provider} answered with a redirect, which is not followed`)
    return withoutKey(response, headers, upstream.key)
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    idleTimeout: 0,
    maxRequestBodySize: 256 * 1024 * 1024,
    fetch: forward,
    error: () => refusal(500, "the broker failed"),
  })
  return {
    port: server.port ?? 0,
    setUpstreams: (next) => {
      upstreams = next
    },
    activeCalls: () => server.pendingRequests,
    stop: () => server.stop(true),
  }
}

/** Some providers repeat a wrong key in their error; the agent must not read it there. */
const withoutKey = async (response: Response, headers: Headers, key = ""): Promise<Response> => {
  const encoding = headers.get("content-encoding")
  const bytes = new Uint8Array(await response.arrayBuffer()).slice(0, MAX_ERROR_BYTES)
  const text = new TextDecoder().decode(encoding === "gzip" ? Bun.gunzipSync(bytes) : bytes)
  headers.delete("content-encoding")
  headers.delete("content-length")
  return new Response(key === "" ? text : text.replaceAll(key, "[key]"), {
    status: response.status,
    headers,
  })
}

const refusal = (status: number, message: string): Response =>
  Response.json({ error: { message: `sandpiper: ${message}`, type: "broker_error" } }, { status })

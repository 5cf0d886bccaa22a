/**
 * A loopback proxy that adds keys to model calls and to calls of tools, so that neither the agent's environment nor its files
 * hold one.
 * The agent shows this boot's broker token in place of a key; the token is worth nothing outside the sandbox.
 */
import { sameText } from "../../lib/constant-time.ts"
import type { Log } from "../../lib/log.ts"
import { readStart } from "../../lib/read-limited.ts"
import { type Service, SERVICE_HEADER, serviceSecrets, serviceTarget } from "./services.ts"
import {
  credentialOf,
  forwardedHeaders,
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
  readonly setUpstreams: (
    upstreams: ReadonlyMap<string, Upstream>,
    services?: ReadonlyMap<string, Service>,
  ) => void
  readonly activeCalls: () => number
  readonly stop: () => Promise<void>
}

/** An error response is read to take the key out of it; a longer one is cut. */
const MAX_ERROR_BYTES = 256 * 1024

export const startKeyBroker = ({ token, port = 0, log, proxyUrl }: KeyBrokerOptions): KeyBroker => {
  /** Undefined until the runner has its configuration. */
  let upstreams: ReadonlyMap<string, Upstream> | undefined
  let services: ReadonlyMap<string, Service> = new Map()

  const forward = async (request: Request): Promise<Response> => {
    if (!sameText(credentialOf(request.headers), token))
      return refusal(401, "the broker's token is expected in place of a provider key")
    const call = callOf(request)
    return "status" in call ? call : send(request, call)
  }

  const callOf = (request: Request): Call | Response => {
    // The agent's client repeats a call after this status.
    if (!upstreams) return refusal(503, "the runner is starting and has no keys yet: try again")
    const { pathname, search } = new URL(request.url)
    const name = request.headers.get(SERVICE_HEADER)
    if (name !== null) {
      const service = services.get(name)
      if (!service) return refusal(404, `no service "${name}" is configured`)
      const target = serviceTarget(service, request.method, pathname, search)
      if (!target.ok) return refusal(403, target.message)
      const headers = forwardedHeaders(request.headers)
      for (const [header, value] of Object.entries(service.headers)) headers.set(header, value)
      return { name, url: target.url, headers, secrets: serviceSecrets(service) }
    }
    const target = targetOf(request.method, pathname, search, upstreams)
    if (!target.ok) return refusal(target.status, target.message)
    const upstream = upstreams.get(target.provider)
    if (!upstream) return refusal(404, `no key is configured for provider "${target.provider}"`)
    const headers = upstreamHeaders(request.headers, upstream)
    return { name: target.provider, url: target.url, headers, secrets: [upstream.key ?? ""] }
  }

  const send = async (request: Request, { name, url, headers, secrets }: Call) => {
    let response: Response
    try {
      response = await fetch(url, {
        method: request.method,
        headers,
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
      const { host } = new URL(url)
      log.warn("broker.unreachable", { provider: name, host })
      const code = (error as { code?: unknown }).code
      const why = typeof code === "string" ? ` (${code})` : ""
      return refusal(502, `${name} at ${host} cannot be reached${why}`)
    }
    const received = responseHeaders(response.headers)
    if (response.ok)
      return new Response(response.body, { status: response.status, headers: received })
    if (response.status >= 300 && response.status < 400)
      return refusal(502, `${name} answered with a redirect, which is not followed`)
    return withoutSecrets(response, received, secrets)
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
    setUpstreams: (next, nextServices = new Map()) => {
      upstreams = next
      services = nextServices
    },
    activeCalls: () => server.pendingRequests,
    stop: () => server.stop(true),
  }
}

/** A request of the agent that the broker forwards. */
interface Call {
  readonly name: string
  readonly url: string
  /** With the credential. */
  readonly headers: Headers
  /** What must not be in an error that reaches the agent. */
  readonly secrets: readonly string[]
}

/** Some providers repeat a wrong key in their error; the agent must not read it there. */
const withoutSecrets = async (
  response: Response,
  headers: Headers,
  given: readonly string[],
): Promise<Response> => {
  const secrets = given.filter((secret) => secret !== "")
  const { text, isWhole } = await startOfText(response, headers.get("content-encoding"))
  headers.delete("content-encoding")
  headers.delete("content-length")
  const clean = secrets.reduce((rest, secret) => rest.replaceAll(secret, "[key]"), text)
  // A cut can be in the middle of a key, whose beginning is not found.
  const longest = isWhole ? 0 : Math.max(0, ...secrets.map(({ length }) => length))
  const shown = clean.slice(0, clean.length - longest)
  return new Response(shown, { status: response.status, headers })
}

/** A few kilobytes can be gigabytes when they are unpacked: they are counted unpacked. */
const startOfText = async ({ body }: Response, encoding: string | null) => {
  const isPacked = encoding === "gzip"
  // What is packed in another way cannot be searched.
  if (!body || (encoding !== null && encoding !== "identity" && !isPacked)) {
    await body?.cancel()
    return { text: "", isWhole: true }
  }
  const unpacked = isPacked ? body.pipeThrough(new DecompressionStream("gzip")) : body
  const { bytes, isWhole } = await readStart({ body: unpacked }, MAX_ERROR_BYTES)
  return { text: new TextDecoder().decode(bytes), isWhole }
}

const refusal = (status: number, message: string): Response =>
  Response.json({ error: { message: `sandpiper: ${message}`, type: "broker_error" } }, { status })

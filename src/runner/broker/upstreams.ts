/**
 * Model providers as the key broker sees them: where each one is, how it takes its key, and which of its calls the agent may
 * make. Pure.
 */
import { SERVICE_HEADER } from "./services.ts"

export type AuthStyle = "bearer" | "x-api-key" | "x-goog-api-key"

export interface UpstreamAddress {
  readonly baseUrl: string
  readonly auth: AuthStyle
}

export interface Upstream extends UpstreamAddress {
  /** Undefined for a provider that takes calls without a key. */
  readonly key?: string | undefined
}

/** Base URLs are those that OpenCode's client libraries use by default. */
export const knownProviders: Readonly<Record<string, UpstreamAddress>> = {
  anthropic: { baseUrl: "https://api.anthropic.com/v1", auth: "x-api-key" },
  openai: { baseUrl: "https://api.openai.com/v1", auth: "bearer" },
  google: {
    baseUrl: "https://generativelanguage.googleapis.com/v1beta",
    auth: "x-goog-api-key",
  },
  openrouter: { baseUrl: "https://openrouter.ai/api/v1", auth: "bearer" },
  groq: { baseUrl: "https://api.groq.com/openai/v1", auth: "bearer" },
  mistral: { baseUrl: "https://api.mistral.ai/v1", auth: "bearer" },
  xai: { baseUrl: "https://api.x.ai/v1", auth: "bearer" },
  deepseek: { baseUrl: "https://api.deepseek.com", auth: "bearer" },
  cerebras: { baseUrl: "https://api.cerebras.ai/v1", auth: "bearer" },
  deepinfra: { baseUrl: "https://api.deepinfra.com/v1/openai", auth: "bearer" },
  perplexity: { baseUrl: "https://api.perplexity.ai", auth: "bearer" },
  togetherai: { baseUrl: "https://api.together.xyz/v1", auth: "bearer" },
}

/** Model calls only: a key may also open files, billing and administration, which the agent has no use for. */
const allowedCalls: readonly (readonly [method: string, path: RegExp])[] = [
  [
    "POST",
    /^\/(chat\/completions|completions|responses|embeddings|messages|messages\/count_tokens)$/,
  ],
  ["POST", /^\/models\/[\w.-]+:(generateContent|streamGenerateContent|countTokens|embedContent)$/],
  ["GET", /^\/models(\/[\w.:/-]+)?$/],
]

export type Target =
  | { readonly ok: true; readonly provider: string; readonly url: string }
  | { readonly ok: false; readonly status: 403 | 404; readonly message: string }

/** `/<provider>/<call>` of the broker -> the provider's URL for that call. */
export const targetOf = (
  method: string,
  pathname: string,
  search: string,
  upstreams: ReadonlyMap<string, Upstream>,
): Target => {
  const [, provider = "", call = ""] = /^\/([^/]+)(\/.*)$/.exec(pathname) ?? []
  const upstream = upstreams.get(provider)
  if (!upstream)
    return { ok: false, status: 404, message: `no key is configured for provider "${provider}"` }
  const allowed =
    !call.includes("..") && allowedCalls.some(([verb, path]) => verb === method && path.test(call))
  if (!allowed)
    return {
      ok: false,
      status: 403,
      message: `${method} ${call} is not a model call; the broker forwards model calls only`,
    }
  return { ok: true, provider, url: `${upstream.baseUrl.replace(/\/+$/, "")}${call}${search}` }
}

const credentialHeaders = ["authorization", "x-api-key", "x-goog-api-key"]

/** The credential of a request, in whichever header the provider's client library puts it. */
export const credentialOf = (headers: Headers): string =>
  headers.get("x-api-key") ??
  headers.get("x-goog-api-key") ??
  /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ??
  ""

/** Headers that describe one connection, and those that would tell the provider about the sandbox. */
const droppedHeaders = [
  ...credentialHeaders,
  "host",
  "connection",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "cookie",
  "forwarded",
  "x-forwarded-for",
]

/** The request's headers without credentials and without those of one connection. */
export const forwardedHeaders = (from: Headers): Headers => {
  const headers = new Headers(from)
  for (const name of [...droppedHeaders, SERVICE_HEADER]) headers.delete(name)
  return headers
}

export const upstreamHeaders = (from: Headers, { auth, key }: Upstream): Headers => {
  const headers = forwardedHeaders(from)
  if (key === undefined) return headers
  if (auth === "bearer") headers.set("authorization", `Bearer ${key}`)
  else headers.set(auth, key)
  return headers
}

/** What of the provider's headers reaches the agent. */
export const responseHeaders = (from: Headers): Headers => {
  const headers = new Headers(from)
  for (const name of ["connection", "keep-alive", "transfer-encoding", "set-cookie", "trailer"])
    headers.delete(name)
  return headers
}

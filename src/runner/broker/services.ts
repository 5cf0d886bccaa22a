/**
 * Services other than model providers whose credentials the broker adds: MCP servers and Parallel. A request names its service
 * in a header, so that paths stay those of the service. Pure.
 */

export interface Service {
  /** Of an MCP server: its full address. Of Parallel: the address that paths follow. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly calls: "mcp" | "parallel"
}

/** The request header that names the service. */
export const SERVICE_HEADER = "x-sandpiper-service"
export const PARALLEL = "parallel"

export type ServiceTarget =
  | { readonly ok: true; readonly url: string }
  | { readonly ok: false; readonly message: string }

/** Only the calls that tools make: the credential may open more. */
export const serviceTarget = (
  service: Service,
  method: string,
  pathname: string,
  search: string,
): ServiceTarget => {
  const refused = {
    ok: false,
    message: `${method} ${pathname} is not a call of this service; the broker forwards tool calls only`,
  } as const
  if (pathname.includes("..") || pathname.includes("//")) return refused
  return service.calls === "mcp"
    ? (mcpTarget(new URL(service.url), method, pathname, search) ?? refused)
    : parallelCalls.some(([verb, path]) => verb === method && path.test(pathname))
      ? { ok: true, url: `${service.url.replace(/\/+$/, "")}${pathname}${search}` }
      : refused
}

const parallelCalls: readonly (readonly [method: string, path: RegExp])[] = [
  ["POST", /^\/v1\/(search|extract|tasks\/runs)$/],
  ["GET", /^\/v1\/tasks\/runs\/[\w.-]+(\/result)?$/],
]

const mcpTarget = (
  { origin, pathname: own, search: ownSearch }: URL,
  method: string,
  pathname: string,
  search: string,
): ServiceTarget | undefined => {
  if (!["GET", "POST", "DELETE"].includes(method)) return undefined
  if (pathname === own) {
    const query = [ownSearch, search].map((text) => text.slice(1)).filter(Boolean)
    return {
      ok: true,
      url: `${origin}${own}${query.length === 0 ? "" : `?${query.join("&")}`}`,
    }
  }
  // The older transport of MCP reads from .../sse and posts to a path beside it, which the server names.
  const folder = own.endsWith("/sse") ? own.slice(0, -"sse".length) : undefined
  const isPost =
    folder !== undefined &&
    method === "POST" &&
    /^messages?\/?$/.test(afterPrefix(pathname, folder))
  return isPost ? { ok: true, url: `${origin}${pathname}${search}` } : undefined
}

const afterPrefix = (text: string, prefix: string): string =>
  text.startsWith(prefix) ? text.slice(prefix.length) : ""

/** Credentials as they may appear in a response: with and without their scheme. */
export const serviceSecrets = ({ url, headers }: Service): readonly string[] =>
  [
    ...Object.values(headers).flatMap((value) => [value, value.replace(/^\w+ /, "")]),
    ...new URL(url).searchParams.values(),
  ].filter((value) => value.length >= 8)

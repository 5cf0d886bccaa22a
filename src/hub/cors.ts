/** Cross-origin requests (CORS): web pages of allowed origins may use the HTTP API and its event streams. */

/** The origin of the request, if it is in the list. */
const allowedOrigin = (request: Request, allowed: readonly string[]): string | undefined => {
  const origin = request.headers.get("origin")
  return origin !== null && allowed.includes(origin) ? origin : undefined
}

/** The response to a preflight request of an allowed origin; undefined for any other request. */
export const preflightResponse = (
  request: Request,
  allowed: readonly string[],
): Response | undefined => {
  const origin = allowedOrigin(request, allowed)
  if (request.method !== "OPTIONS" || origin === undefined) return undefined
  return new Response(undefined, {
    status: 204,
    headers: {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST, PUT, DELETE",
      "access-control-allow-headers": "authorization, content-type, last-event-id",
      "access-control-max-age": "600",
      vary: "Origin",
    },
  })
}

/** Lets a page of an allowed origin read the response. A WebSocket's response is unchanged. */
export const withCors = (
  response: Response,
  request: Request,
  allowed: readonly string[],
): Response => {
  const origin = allowedOrigin(request, allowed)
  if (origin === undefined || response.status === 101) return response
  const headers = new Headers(response.headers)
  headers.set("access-control-allow-origin", origin)
  headers.set("access-control-expose-headers", "retry-after")
  headers.append("vary", "Origin")
  return new Response(response.body, { status: response.status, headers })
}

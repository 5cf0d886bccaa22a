/** A response of the gateway itself, rendered to bytes. */

export interface HttpResponse {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  302: "Found",
  304: "Not Modified",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  414: "URI Too Long",
  421: "Misdirected Request",
  426: "Upgrade Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
}

export const renderResponse = (
  response: HttpResponse,
  headOnly: boolean,
  keepAlive: boolean,
): Buffer => {
  const { status, headers = {}, body = "" } = response
  const bytes = typeof body === "string" ? Buffer.from(body) : body
  let text = `HTTP/1.1 ${status} ${reasons[status] ?? "Status"}\r\n`
  for (const [name, value] of Object.entries(headers)) text += `${name}: ${value}\r\n`
  // A 304 has no body; its length would be that of the stored response.
  if (status !== 304) text += `content-length: ${bytes.length}\r\n`
  if (headers["cache-control"] === undefined) text += "cache-control: no-store\r\n"
  text += "x-content-type-options: nosniff\r\n"
  if (!keepAlive) text += "connection: close\r\n"
  text += "\r\n"
  const head = Buffer.from(text, "latin1")
  return headOnly ? head : Buffer.concat([head, bytes])
}

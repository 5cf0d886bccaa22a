/** A response of the gateway itself, rendered to bytes. */

export interface HttpResponse {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  204: "No Content",
  206: "Partial Content",
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
  416: "Range Not Satisfiable",
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
  507: "Insufficient Storage",
}

export const renderResponse = (
  response: HttpResponse,
  headOnly: boolean,
  keepAlive: boolean,
): Buffer => {
  const { status, headers = {}, body = "" } = response
  const bytes = typeof body === "string" ? Buffer.from(body) : body
  let text = startOf(status, headers)
  // A 304 has no body; its length would be that of the stored response.
  if (status !== 304) text += `content-length: ${bytes.length}\r\n`
  if (headers["cache-control"] === undefined) text += "cache-control: no-store\r\n"
  text += "x-content-type-options: nosniff\r\n"
  if (!keepAlive) text += "connection: close\r\n"
  text += "\r\n"
  const head = Buffer.from(text, "latin1")
  return headOnly ? head : Buffer.concat([head, bytes])
}

/** The head of a response whose body follows in pieces; `headers` must say how its length is known. */
export const renderHead = (status: number, headers: Readonly<Record<string, string>>): Buffer =>
  Buffer.from(
    `${startOf(status, headers)}cache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n`,
    "latin1",
  )

const startOf = (status: number, headers: Readonly<Record<string, string>>): string => {
  let text = `HTTP/1.1 ${status} ${reasons[status] ?? "Status"}\r\n`
  for (const [name, value] of Object.entries(headers)) text += `${name}: ${value}\r\n`
  return text
}

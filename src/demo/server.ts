/** An OpenAI-compatible chat-completions server that sends scripted replies. */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { text as readText } from "node:stream/consumers"
import { z } from "zod"
import { replyScript } from "./chunks.ts"
import { playStream, playWhole } from "./play.ts"
import { httpError, type ErrorReply, type Reply } from "./reply.ts"
import { chatBody, type ChatRequest } from "./request.ts"

interface ModelServerOptions {
  /** 0, the default, picks a free port. */
  readonly port?: number
  readonly hostname?: string
  /** The ids that `GET /v1/models` lists. */
  readonly models?: readonly string[]
  /** If set, every request must have it as its bearer token. */
  readonly apiKey?: string
  readonly respond: (request: ChatRequest) => Reply | Promise<Reply>
}

export interface ModelServer {
  /** The base URL for clients; ends in `/v1`. */
  readonly url: string
  readonly port: number
  /** Also ends replies in progress. */
  readonly stop: () => Promise<void>
}

/** Uses `node:http`, because `Bun.serve` does not expose the socket, which a TCP reset needs. */
export async function startModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const { port = 0, hostname = "127.0.0.1" } = options
  const server = createServer((incoming, response) => {
    void serve(options, incoming, response)
  })
  server.listen(port, hostname)
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("the server has no TCP port")
  return {
    url: `http://${hostname}:${address.port}/v1`,
    port: address.port,
    stop: async () => {
      const closed = once(server, "close")
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Never rejects: an error becomes a 500 response unless the client has disconnected. */
async function serve(
  options: ModelServerOptions,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const disconnected = new AbortController()
  response.once("close", () => {
    if (!response.writableEnded) disconnected.abort()
  })
  try {
    await route(options, incoming, response, disconnected.signal)
  } catch (error) {
    if (disconnected.signal.aborted) return
    const message = error instanceof Error ? error.message : String(error)
    if (response.headersSent) response.destroy()
    else sendJson(response, httpError(500, { message }))
  }
}

async function route(
  { apiKey, models = [], respond }: ModelServerOptions,
  incoming: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  if (apiKey !== undefined && incoming.headers.authorization !== `Bearer ${apiKey}`)
    return sendJson(response, httpError(401, { message: "Incorrect API key provided." }))

  switch (`${incoming.method} ${incoming.url?.split("?")[0]}`) {
    case "GET /v1/models": {
      const data = models.map((id) => ({ id, object: "model", created: 0, owned_by: "script" }))
      return sendJson(response, { status: 200, headers: {}, body: { object: "list", data } })
    }
    case "POST /v1/chat/completions": {
      const body = chatBody.safeParse(parseJson(await readText(incoming)))
      if (!body.success)
        return sendJson(response, httpError(400, { message: z.prettifyError(body.error) }))
      const agentSessionId = incoming.headers["x-session-id"]?.toString()
      const request = { ...body.data, agentSessionId, signal }
      return sendReply(request, await respond(request), response)
    }
    default:
      return sendJson(response, httpError(404))
  }
}

async function sendReply(
  request: ChatRequest,
  reply: Reply,
  response: ServerResponse,
): Promise<void> {
  if (request.signal.aborted) return
  if ("status" in reply) return sendJson(response, reply)
  const key = crypto.randomUUID().replaceAll("-", "")
  const envelope = {
    id: `chatcmpl-${key}`,
    created: Math.floor(Date.now() / 1000),
    model: request.model,
  }
  const play = request.stream ? playStream : playWhole
  return play(replyScript(reply, key), envelope, request, response)
}

function sendJson(response: ServerResponse, { status, headers, body }: ErrorReply): void {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

/** Undefined for invalid JSON, which the schema then rejects. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

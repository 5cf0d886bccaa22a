/** An OpenAI-compatible chat-completions server that plays scripted replies. */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { text as readText } from "node:stream/consumers"
import { z } from "zod"
import { replyScript } from "./chunks.ts"
import { playStream, playWhole } from "./play.ts"
import { httpError, type ErrorReply, type Reply } from "./reply.ts"
import { chatBody, type ChatRequest } from "./request.ts"

interface ModelServerOptions {
  /** 0, the default, takes a free port. */
  readonly port?: number
  readonly hostname?: string
  /** What `GET /v1/models` lists. */
  readonly models?: readonly string[]
  /** When given, every request must bring it as its bearer token. */
  readonly apiKey?: string
  readonly respond: (request: ChatRequest) => Reply | Promise<Reply>
}

export interface ModelServer {
  /** The base URL for a client; it ends in `/v1`. */
  readonly url: string
  readonly port: number
  /** Ends every reply under way, hanging ones too. */
  readonly stop: () => Promise<void>
}

/** Built on `node:http`, because `Bun.serve` gives no hold of the socket, which a reset needs. */
export async function startModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const { port = 0, hostname = "127.0.0.1" } = options
  const server = createServer((incoming, response) => {
    void serve(options, incoming, response)
  })
  server.listen(port, hostname)
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no TCP port to serve on")
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

/** Never rejects: what goes wrong becomes an answer, or there is nobody left to answer. */
async function serve(
  options: ModelServerOptions,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController()
  response.once("close", () => {
    if (!response.writableEnded) gone.abort()
  })
  try {
    await route(options, incoming, response, gone.signal)
  } catch (error) {
    if (gone.signal.aborted) return
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
      const sessionId = incoming.headers["x-session-id"]?.toString()
      const request = { ...body.data, sessionId, signal }
      return answer(request, await respond(request), response)
    }
    default:
      return sendJson(response, httpError(404))
  }
}

async function answer(request: ChatRequest, reply: Reply, response: ServerResponse): Promise<void> {
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

/** What is not JSON is no valid body either, and is refused as one. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The sandbox's door: one HTTP server, closed to all that is no row of the routes table. */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { routes } from "./routes.ts"

export interface Gateway {
  readonly port: number
  readonly stop: () => Promise<void>
}

export interface GatewayOptions {
  readonly host: string
  readonly port: number
}

const HEALTHY = '{"ok":true}'

export const startGateway = async ({ host, port }: GatewayOptions): Promise<Gateway> => {
  const server = createServer(answer)
  server.listen(port, host)
  await Promise.race([once(server, "listening"), once(server, "error").then(refuse(host, port))])
  const address = server.address()
  return {
    port: typeof address === "object" && address ? address.port : port,
    stop: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

const refuse =
  (host: string, port: number) =>
  ([error]: unknown[]): never => {
    throw new Error(`the gateway cannot listen on ${host}:${port} (GATEWAY_PORT, GATEWAY_HOST)`, {
      cause: error,
    })
  }

const answer = (request: IncomingMessage, response: ServerResponse): void => {
  const path = (request.url ?? "/").split("?", 1)[0]
  const open = routes.some((route) => route.path === path) && request.method === "GET"
  response.writeHead(open ? 200 : 404, {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  })
  response.end(open ? HEALTHY : '{"error":"not found"}')
}

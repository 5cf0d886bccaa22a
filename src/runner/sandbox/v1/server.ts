/**
 * The process that serves `/v1`: files and programs of the workspace. It runs as the agent's user, so that a request can do
 * what the agent could do and nothing else. The gateway checks the caller's key and forwards; the token here is the gateway's.
 */
import { realpath } from "node:fs/promises"
import { z } from "zod"
import type { Clock } from "../../../lib/clock.ts"
import { sameText } from "../../../lib/constant-time.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { HttpError } from "../../gateway/http/fields.ts"
import { valueOf } from "../../gateway/http/request-info.ts"
import { parseTarget } from "../../gateway/http/target.ts"
import type { HttpExchange } from "../../gateway/tcp/http-exchange.ts"
import { startServer } from "../../gateway/tcp/server.ts"
import { createBackground } from "./background.ts"
import { createClient } from "./client.ts"
import { copyRoutes } from "./copy-routes.ts"
import { type Handler, fileRoutes } from "./file-routes.ts"
import { createFiles } from "./files.ts"
import { type FormerProcesses, formerProcesses } from "./former-processes.ts"
import { gitRoutes } from "./git-routes.ts"
import { Problem, problemBody } from "./problem.ts"
import { processRoutes } from "./process-routes.ts"
import { createLauncher, endProgramsOf } from "./program.ts"

/** Arrives on standard input: a secret has no place on a command line. */
export const serverOrder = z.object({
  token: z.string().min(16),
  root: z.string().min(1),
  mark: z.string().min(16),
  environment: z.record(z.string(), z.string()),
  former: formerProcesses,
})
export type ServerOrder = z.output<typeof serverOrder>

export interface V1Server {
  readonly port: number
  /** Ends every program that a request has started. */
  readonly stop: () => Promise<void>
}

export const startV1Server = async (
  order: ServerOrder,
  {
    clock,
    log,
    onProcesses,
  }: {
    readonly clock: Clock
    readonly log: Log
    /** The running processes have changed; the runner stores them. */
    readonly onProcesses: (now: FormerProcesses) => void
  },
): Promise<V1Server> => {
  const root = await realpath(order.root)
  // Programs of a server that was killed.
  await endProgramsOf(order.mark)
  const files = createFiles(root)
  const launcher = createLauncher(files, order.environment, order.mark)
  const background = createBackground(launcher, clock, {
    former: order.former,
    onProcesses,
  })
  const find = createRouter({
    ...fileRoutes({ root, files, clock }),
    ...processRoutes({ launcher, background, clock }),
    ...gitRoutes(files, order.environment),
    ...copyRoutes(files, order.environment),
  })

  const handle = async (exchange: HttpExchange): Promise<void> => {
    const target = parseTarget(exchange.head.target)
    const found = find(exchange.head.method, target.path)
    if (found === undefined) throw new Problem(404, "not_found", "there is no such route")
    await found.handler(createClient(exchange, target, found.params))
  }
  const fail = (exchange: HttpExchange, error: unknown): void => {
    if (exchange.bytesOut() > 0) return exchange.abort()
    const problem = asProblem(error)
    if (problem.status === 500) log.error("v1.failed", { error: describeError(error) })
    exchange.respond({
      status: problem.status,
      headers: { "content-type": "application/problem+json" },
      body: problemBody(problem),
    })
  }

  const server = startServer({
    host: "127.0.0.1",
    port: 0,
    clock,
    onRequest: (exchange) => {
      const isGateway = sameText(
        valueOf(exchange.head, "authorization") ?? "",
        `Bearer ${order.token}`,
      )
      if (!isGateway) return exchange.respond({ status: 401 })
      exchange.isTrusted = true
      void handle(exchange).catch((error: unknown) => fail(exchange, error))
    },
    onRequestOver: () => {},
    onRefused: () => {},
    onTick: () => {},
    isEssential: () => true,
  })
  return {
    port: server.port,
    stop: async () => {
      await background.stop()
      await endProgramsOf(order.mark)
      await server.stop()
    },
  }
}

const asProblem = (error: unknown): Problem => {
  if (error instanceof Problem) return error
  if (error instanceof HttpError) {
    return new Problem(error.status, "invalid_request", error.message)
  }
  return new Problem(500, "stream_error", "something went wrong in the sandbox")
}

interface FoundRoute {
  readonly handler: Handler
  readonly params: Readonly<Record<string, string>>
}

/** Rows are `METHOD /path` with `:name` for one segment; a row without parameters wins. */
const createRouter = (
  rows: Readonly<Record<string, Handler>>,
): ((method: string, path: string) => FoundRoute | undefined) => {
  const patterns = Object.entries(rows)
    .filter(([row]) => row.includes(":"))
    .map(([row, handler]) => ({ parts: row.split("/"), handler }))
  return (method, path) => {
    const exact = rows[`${method} ${path}`]
    if (exact !== undefined) return { handler: exact, params: {} }
    const given = `${method} ${path}`.split("/")
    for (const { parts, handler } of patterns) {
      if (parts.length !== given.length) continue
      const matches = parts.every((part, index) => part.startsWith(":") || part === given[index])
      if (!matches) continue
      const params = parts.flatMap((part, index) =>
        part.startsWith(":") ? [[part.slice(1), given[index] ?? ""] as const] : [],
      )
      return { handler, params: Object.fromEntries(params) }
    }
    return undefined
  }
}

/** The tools' API: a route for every operation in the table, and one for tickets. */
import { Hono } from "hono"
import type { ContentfulStatusCode } from "hono/utils/http-status"
import { z } from "zod"
import type { Log } from "../log.ts"
import { describeError } from "../log.ts"
import type { Operation } from "../operations/index.ts"
import { operations } from "../operations/index.ts"
import { findRoute } from "./routes.ts"
import type { Tickets } from "./tickets.ts"
import { parseTarget } from "./http/target.ts"

/** An answer other than success; `message` is told to the tool. */
export class ApiError extends Error {
  override readonly name = "ApiError"
  readonly status: ContentfulStatusCode
  readonly code: string
  constructor(status: ContentfulStatusCode, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

type Fields = Record<string, unknown>

export interface ApiPorts {
  /** Asks the session agent; rejects with an ApiError that says why there is no answer. */
  readonly ask: (type: string, fields: Fields) => Promise<Fields>
  /** Tells the session agent something. */
  readonly tell: (type: string, fields: Fields) => void
  /** What the sandbox does by itself, by the operation's name; one that is missing is not implemented. */
  readonly local: Readonly<Record<string, ((input: Fields) => unknown) | undefined>>
  readonly tickets: Tickets
  readonly log: Log
}

export interface Api {
  readonly fetch: (request: Request) => Promise<Response>
  /** Every route there is, for the test that compares them with the table. */
  readonly routes: readonly { readonly method: string; readonly path: string }[]
}

export const createApi = (ports: ApiPorts): Api => {
  const app = new Hono()
  const { log } = ports
  for (const operation of operations) {
    app.on(operation.method, operation.path, async (context) => {
      const input = await readInput(operation, context.req.raw, context.req.param())
      return context.json(await perform(operation, input, ports))
    })
  }
  app.post("/api/tickets", async (context) => {
    const { path } = parse(ticketInput, await readJson(context.req.raw))
    const { ticket, expiresAt } = ports.tickets.issue(path)
    const seconds = Math.round((expiresAt - Date.now()) / 1000)
    return context.json({
      ticket,
      path,
      url: `${path}?ticket=${ticket}`,
      expiresInSeconds: seconds,
    })
  })
  app.notFound((context) =>
    context.json(failure(404, "not-found", "there is no such operation"), 404),
  )
  app.onError((error, context) => {
    const known = error instanceof ApiError
    const requestId = crypto.randomUUID()
    const fields = { requestId, path: context.req.path, error: describeError(error) }
    if (known) log.debug("api.refused", fields)
    else log.error("api.failed", fields)
    const { status, code, message } = known
      ? error
      : { status: 500 as const, code: "internal", message: "something went wrong in the runner" }
    return context.json({ ...failure(status, code, message), requestId }, status)
  })
  return {
    fetch: async (request) => app.fetch(request),
    routes: app.routes.map(({ method, path }) => ({ method, path })),
  }
}

const failure = (_status: number, code: string, error: string) => ({ error, code })

/** Only what a person may open, and nothing wider than one service. */
const ticketInput = z.object({
  path: z.string({ error: "is required and must be text" }).refine(isTicketPath, {
    error: "must be the path of a service, such as /vscode/, /vnc/, /ttyd/ or /t/<name>/",
  }),
})

function isTicketPath(path: string): boolean {
  try {
    const target = parseTarget(path)
    const route = findRoute(target.path, target.search)
    if (target.search !== "" || route?.access !== "person") return false
    return route.name !== "tunnel" || /^\/t\/[A-Za-z0-9_-]{1,32}\//.test(path)
  } catch {
    return false
  }
}

const perform = async (operation: Operation, input: Fields, ports: ApiPorts): Promise<unknown> => {
  const { served } = operation
  switch (served.by) {
    case "session": {
      const result = await ports.ask(served.request.type, served.toFields(input))
      const reply = operation.output.safeParse(served.toReply(result))
      if (!reply.success) {
        throw new ApiError(
          502,
          "bad-answer",
          `the session agent's answer lacks something: ${complaint(reply.error)}`,
        )
      }
      if (served.announce) ports.tell(served.announce.frame, served.announce.toFields(result))
      return reply.data
    }
    case "frame":
      ports.tell(served.frame, served.toFields(input))
      return served.reply
    case "sandbox": {
      const run = ports.local[operation.name]
      if (!run) throw new ApiError(501, "not-implemented", `this sandbox has no ${served.part}`)
      return operation.output.parse(await run(input))
    }
  }
}

const readInput = async (
  { method, input }: Operation,
  request: Request,
  parameters: Readonly<Record<string, string>>,
): Promise<Fields> => {
  const query = Object.fromEntries(new URL(request.url).searchParams)
  const body = method === "GET" || method === "DELETE" ? {} : await readJson(request)
  return parse(input, { ...query, ...body, ...parameters })
}

const readJson = async (request: Request): Promise<Fields> => {
  const text = await request.text()
  if (text.trim() === "") return {}
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch {
    throw new ApiError(400, "bad-input", "the body must be a JSON object")
  }
}

const parse = <Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> => {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new ApiError(400, "bad-input", complaint(parsed.error))
}

const complaint = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join(".") || "the input"} ${message}`).join("; ")

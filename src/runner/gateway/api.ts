/** The tools' API: a route for every operation in the table, and one for tickets. */
import { Hono } from "hono"
import type { ContentfulStatusCode } from "hono/utils/http-status"
import { z } from "zod"
import type { Log } from "../../lib/log.ts"
import { describeError } from "../../lib/log.ts"
import type { Operation } from "../../wire/operations/index.ts"
import { operations } from "../../wire/operations/index.ts"
import { openApi } from "../../wire/operations/openapi.ts"
import { createOnce, KeyReused } from "./idempotency.ts"
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

/** The tool call that a request comes from, as the tool's headers say. */
export interface Caller {
  readonly sessionId?: string | undefined
  readonly messageId?: string | undefined
  readonly callId?: string | undefined
}

export interface ApiPorts {
  /** Asks the session agent; rejects with an ApiError that says why there is no answer. */
  readonly request: (type: string, fields: Fields, caller: Caller) => Promise<Fields>
  /** Tells the session agent something. */
  readonly notify: (type: string, fields: Fields, caller: Caller) => void
  /** What the sandbox does by itself, by the operation's name; one that is missing is not implemented. */
  readonly local: Readonly<Record<string, ((input: Fields) => unknown) | undefined>>
  readonly tickets: Tickets
  readonly now: () => number
  readonly log: Log
  readonly table?: readonly Operation[]
}

export interface Api {
  readonly fetch: (request: Request) => Promise<Response>
  /** Every route there is, for the test that compares them with the table. */
  readonly routes: readonly { readonly method: string; readonly path: string }[]
}

export const createApi = (ports: ApiPorts): Api => {
  const app = new Hono()
  const { log, now, table = operations } = ports
  const failed = (error: unknown, path: string, caller: Caller = {}): Reply => {
    const known = error instanceof ApiError
    const requestId = crypto.randomUUID()
    const fields = { requestId, path, ...caller, error: describeError(error) }
    if (known) log.debug("api.refused", fields)
    else log.error("api.failed", fields)
    const { status, code, message } = known
      ? error
      : { status: 500 as const, code: "internal", message: "something went wrong in the runner" }
    return { status, body: { error: message, code, requestId } }
  }
  /** A failure is an answer too: a repetition of a call that failed half-way must not do it again. */
  const answered = async (
    run: () => Promise<unknown>,
    path: string,
    caller: Caller,
  ): Promise<Reply> => {
    try {
      return { status: 200, body: await run() }
    } catch (error) {
      return failed(error, path, caller)
    }
  }
  const once = createOnce<Reply>({ now })
  for (const operation of table) {
    app.on(operation.method, operation.path, async (context) => {
      const request = context.req.raw
      const input = await readInput(operation, request, context.req.param())
      const caller = callerOf(request.headers)
      const work = () => perform(operation, input, ports, caller)
      const run = () => answered(work, context.req.path, caller)
      const key = operation.method === "GET" ? null : request.headers.get("idempotency-key")
      const answer =
        key === null ? await run() : await once(key, callOf(operation, input), run).catch(refuseKey)
      return context.json(answer.body, answer.status)
    })
  }
  app.get("/api/openapi.json", (context) => context.json(openApi(table)))
  app.post("/api/tickets", async (context) => {
    const { path } = parse(ticketInput, await readJson(context.req.raw))
    const { ticket, expiresAt } = ports.tickets.issue(path)
    const seconds = Math.round((expiresAt - ports.now()) / 1000)
    return context.json({
      ticket,
      path,
      url: `${path}?ticket=${ticket}`,
      expiresInSeconds: seconds,
    })
  })
  app.notFound((context) => {
    const { body, status } = failed(
      new ApiError(404, "not-found", "there is no such operation"),
      context.req.path,
    )
    return context.json(body, status)
  })
  app.onError((error, context) => {
    const { body, status } = failed(error, context.req.path)
    return context.json(body, status)
  })
  return {
    fetch: async (request) => app.fetch(request),
    routes: app.routes.map(({ method, path }) => ({ method, path })),
  }
}

interface Reply {
  readonly status: ContentfulStatusCode
  readonly body: unknown
}

const callerOf = (headers: Headers): Caller => ({
  sessionId: headers.get("x-opencode-session-id") ?? undefined,
  messageId: headers.get("x-opencode-message-id") ?? undefined,
  callId: headers.get("x-opencode-call-id") ?? undefined,
})

const callOf = ({ name }: Operation, input: Fields): string => `${name} ${JSON.stringify(input)}`

const refuseKey = (error: unknown): never => {
  if (!(error instanceof KeyReused)) throw error
  throw new ApiError(409, "key-reused", `Idempotency-Key: ${error.message}`)
}

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

const perform = async (
  operation: Operation,
  input: Fields,
  ports: ApiPorts,
  caller: Caller,
): Promise<unknown> => {
  const { served } = operation
  switch (served.by) {
    case "session": {
      const result = await ports.request(served.request.type, served.toFields(input), caller)
      const reply = operation.output.safeParse(served.toReply(result))
      if (!reply.success) {
        throw new ApiError(
          502,
          "bad-answer",
          `the session agent's answer lacks something: ${complaint(reply.error)}`,
        )
      }
      if (served.announce) {
        ports.notify(served.announce.frame, served.announce.toFields(result), caller)
      }
      return reply.data
    }
    case "frame":
      ports.notify(served.frame, served.toFields(input), caller)
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

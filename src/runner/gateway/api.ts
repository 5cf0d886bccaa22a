/** The API of the agent's tools: a route for every operation in the table, and one for tickets. */
import { Hono } from "hono"
import type { ContentfulStatusCode } from "hono/utils/http-status"
import { z } from "zod"
import { describeError, type Log } from "../../lib/log.ts"
import {
  isSandboxOperation,
  type Operation,
  operations,
  type OutputOf,
  type SandboxHandlers,
  type SandboxOperationName,
  sandboxSchemas,
} from "../../wire/operations/index.ts"
import { openApi } from "../../wire/operations/openapi.ts"
import { ApiError } from "./api-error.ts"
import type { Approvals } from "./approvals.ts"
import { createOnce, KeyReused } from "./idempotency.ts"
import { findRoute } from "./routes.ts"
import type { Tickets } from "./tickets.ts"
import { parseTarget } from "./http/target.ts"

type Fields = Record<string, unknown>

/** The tool call that sent a request, from the tool's headers. */
export interface Caller {
  readonly sessionId?: string | undefined
  readonly messageId?: string | undefined
  readonly callId?: string | undefined
}

export interface ApiPorts {
  /** Sends a request to the session agent; rejects with an ApiError if there is no result. */
  readonly request: (type: string, fields: Fields, caller: Caller) => Promise<Fields>
  /** Sends a frame to the session agent, without a response. */
  readonly notify: (type: string, fields: Fields, caller: Caller) => void
  /** The operations that the sandbox carries out itself. */
  readonly sandbox: SandboxHandlers
  readonly tickets: Tickets
  /** Absent where no operation needs an approval. */
  readonly approvals?: Approvals | undefined
  readonly now: () => number
  readonly log: Log
}

export interface Api {
  readonly fetch: (request: Request) => Promise<Response>
}

export const createApi = (ports: ApiPorts): Api => {
  const app = new Hono()
  const { log, now } = ports
  const errorReply = (error: unknown, path: string, caller: Caller = {}): Reply => {
    const isExpected = error instanceof ApiError
    const requestId = crypto.randomUUID()
    const fields = { requestId, path, ...caller, error: describeError(error) }
    if (isExpected) log.debug("api.refused", fields)
    else log.error("api.failed", fields)
    const { status, code, message } = isExpected
      ? error
      : {
          status: 500 as const,
          code: "internal",
          message: "the runner failed to handle the request: its log has the reason",
        }
    return { status, body: { error: message, code, requestId } }
  }
  /** An error is a reply too: repeating a call that failed half-way must not carry it out again. */
  const replyOf = async (
    run: () => Promise<unknown>,
    path: string,
    caller: Caller,
  ): Promise<Reply> => {
    try {
      return { status: 200, body: await run() }
    } catch (error) {
      return errorReply(error, path, caller)
    }
  }
  const once = createOnce<Reply>({ now, sizeOf: ({ body }) => JSON.stringify(body ?? null).length })
  for (const operation of operations) {
    app.on(operation.method, operation.path, async (context) => {
      const request = context.req.raw
      const input = await readInput(operation, request, context.req.param())
      const caller = callerOf(request.headers)
      const { approvals } = ports
      const question = { action: operation.name, input, sessionId: caller.sessionId }
      const needsApproval = approvals?.needs(operation.name) === true
      const carryOutAfter = async (allowed: Promise<void> | undefined) => {
        await allowed
        return perform(operation, input, ports, caller)
      }
      if (approvals && needsApproval && request.headers.get("prefer") === "respond-async") {
        const approval = approvals.begin(question, (allowed) =>
          replyOf(() => carryOutAfter(allowed), context.req.path, caller),
        )
        return context.json({ approval, status: "waiting" }, 202)
      }
      const work = () => carryOutAfter(needsApproval ? approvals?.wait(question) : undefined)
      const run = () => replyOf(work, context.req.path, caller)
      const key = operation.method === "GET" ? null : request.headers.get("idempotency-key")
      const reply =
        key === null ? await run() : await once(key, callOf(operation, input), run).catch(refuseKey)
      return context.json(reply.body, reply.status)
    })
  }
  app.get("/api/approvals/:id", (context) => {
    const found = ports.approvals?.poll(context.req.param("id"))
    if (!found)
      throw new ApiError(
        404,
        "not-found",
        "no action with this id waits for an approval: call it again",
      )
    const isOver = found.result !== undefined
    return context.json(isOver ? { status: "done", reply: found.result } : { status: "waiting" })
  })
  app.get("/api/openapi.json", (context) => context.json(openApi(operations)))
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
    const { body, status } = errorReply(
      new ApiError(404, "not-found", "there is no such operation"),
      context.req.path,
    )
    return context.json(body, status)
  })
  app.onError((error, context) => {
    const { body, status } = errorReply(error, context.req.path)
    return context.json(body, status)
  })
  return { fetch: async (request) => app.fetch(request) }
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

/** A ticket is for one service that a person may open. */
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
          `the session agent sent an invalid result: ${issuesOf(reply.error)}`,
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
    case "sandbox":
      if (!isSandboxOperation(operation.name)) throw new Error(`${operation.name} is not known`)
      return carryOut(ports.sandbox, operation.name, input)
  }
}

/** Parses the input a second time: the first time it got the type of any operation's input. */
const carryOut = async <Name extends SandboxOperationName>(
  handlers: SandboxHandlers,
  name: Name,
  input: Fields,
): Promise<OutputOf<Name>> => {
  const schemas = sandboxSchemas(name)
  return schemas.output.parse(await handlers[name](schemas.input.parse(input)))
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
  throw new ApiError(400, "bad-input", issuesOf(parsed.error))
}

const issuesOf = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join(".") || "the input"} ${message}`).join("; ")

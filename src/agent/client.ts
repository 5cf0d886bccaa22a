/** OpenCode's HTTP calls, each typed, each with a deadline, each error told apart from the others. */
import { z } from "zod"
import { messageSchema, partSchema, statusSchema } from "./events.ts"
import type { AgentMessage, AgentPart, SessionStatus } from "./events.ts"
import type { PromptBody, ProviderModels } from "./shapes.ts"

export class AgentCallError extends Error {
  override readonly name = "AgentCallError"
  readonly call: string
  /** The HTTP status, or nothing when no answer came. */
  readonly status: number | undefined
  constructor(call: string, status: number | undefined, detail: string, cause?: unknown) {
    super(
      `OpenCode: ${call} ${status === undefined ? "got no answer" : `failed with ${status}`}: ${detail}`,
      {
        cause,
      },
    )
    this.call = call
    this.status = status
  }
  /** OpenCode said no; asking again would hear the same. Without an answer it may have done it all the same. */
  get isDefinite(): boolean {
    return this.status !== undefined && this.status < 500
  }
}

export interface AgentClient {
  readonly health: () => Promise<{ readonly version: string }>
  /** Fails when OpenCode cannot use its configuration; health says nothing of it. */
  readonly checkConfig: () => Promise<void>
  readonly createSession: (title?: string) => Promise<string>
  readonly sessionExists: (sessionId: string) => Promise<boolean>
  readonly prompt: (sessionId: string, body: PromptBody) => Promise<void>
  readonly abort: (sessionId: string) => Promise<void>
  readonly messages: (
    sessionId: string,
  ) => Promise<readonly { readonly message: AgentMessage; readonly parts: readonly AgentPart[] }[]>
  readonly statuses: () => Promise<ReadonlyMap<string, SessionStatus>>
  readonly replyQuestion: (
    requestId: string,
    answers: readonly (readonly string[])[],
  ) => Promise<void>
  readonly rejectQuestion: (requestId: string) => Promise<void>
  readonly allowOnce: (permissionId: string) => Promise<void>
  /** Names of the connected providers and their models; OpenCode's own answer holds their keys and is not kept. */
  readonly models: () => Promise<readonly ProviderModels[]>
  /** The event stream's response; it ends with the signal. */
  readonly openEvents: (signal: AbortSignal) => Promise<Response>
}

export interface AgentAddress {
  readonly url: string
  readonly password: string
  readonly directory: string
}

const DEADLINE_MS = 10_000
/** OpenCode never answers connections made while it is just coming up, so a health call must give up early. */
const HEALTH_MS = 1000

const session = z.object({ id: z.string() })
const messageList = z.array(
  z.object({ info: messageSchema, parts: z.array(z.unknown()) }).transform(({ info, parts }) => ({
    message: info,
    parts: parts.flatMap((part) => partSchema.safeParse(part).data ?? []),
  })),
)
const providerList = z.object({
  providers: z.array(
    z.object({
      id: z.string(),
      models: z.record(z.string(), z.object({ id: z.string(), name: z.string().optional() })),
    }),
  ),
})

export const createAgentClient = (address: AgentAddress): AgentClient => {
  const headers = {
    authorization: `Basic ${btoa(`opencode:${address.password}`)}`,
    "x-opencode-directory": encodeURIComponent(address.directory),
  }

  const call = async <Schema extends z.ZodType>(
    method: "GET" | "POST",
    path: string,
    schema: Schema,
    { body, deadlineMs = DEADLINE_MS }: { body?: unknown; deadlineMs?: number } = {},
  ): Promise<z.output<Schema>> => {
    const name = `${method} ${path}`
    let response: Response
    let text: string
    try {
      response = await fetch(address.url + path, {
        method,
        headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
        signal: AbortSignal.timeout(deadlineMs),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      text = await response.text()
    } catch (error) {
      throw new AgentCallError(name, undefined, error instanceof Error ? error.message : "", error)
    }
    if (!response.ok) throw new AgentCallError(name, response.status, errorDetail(text))
    const parsed = schema.safeParse(text === "" ? undefined : parseJson(text))
    if (parsed.success) return parsed.data
    throw new AgentCallError(
      name,
      response.status,
      "its answer has an unexpected form",
      parsed.error,
    )
  }

  const done = z.unknown()
  const post = async (path: string, body?: unknown) => {
    await call("POST", path, done, body === undefined ? {} : { body })
  }

  return {
    health: () =>
      call("GET", "/global/health", z.object({ healthy: z.literal(true), version: z.string() }), {
        deadlineMs: HEALTH_MS,
      }),
    checkConfig: async () => {
      await call("GET", "/config", done)
    },
    createSession: async (title) =>
      (await call("POST", "/session", session, { body: title === undefined ? {} : { title } })).id,
    sessionExists: async (sessionId) => {
      try {
        return (
          (await call("GET", `/session/${encodeURIComponent(sessionId)}`, session)).id === sessionId
        )
      } catch (error) {
        if (error instanceof AgentCallError && error.isDefinite) return false
        throw error
      }
    },
    prompt: (sessionId, body) =>
      post(`/session/${encodeURIComponent(sessionId)}/prompt_async`, body),
    abort: (sessionId) => post(`/session/${encodeURIComponent(sessionId)}/abort`),
    messages: (sessionId) =>
      call("GET", `/session/${encodeURIComponent(sessionId)}/message`, messageList),
    statuses: async () =>
      new Map(
        Object.entries(await call("GET", "/session/status", z.record(z.string(), statusSchema))),
      ),
    replyQuestion: (requestId, answers) =>
      post(`/question/${encodeURIComponent(requestId)}/reply`, { answers }),
    rejectQuestion: (requestId) => post(`/question/${encodeURIComponent(requestId)}/reject`),
    allowOnce: (permissionId) =>
      post(`/permission/${encodeURIComponent(permissionId)}/reply`, { reply: "once" }),
    models: async () => {
      const { providers } = await call("GET", "/config/providers", providerList)
      return providers.map(({ id, models }) => ({
        provider: id,
        models: Object.values(models).map((model) => ({
          id: model.id,
          name: model.name ?? model.id,
        })),
      }))
    },
    openEvents: async (signal) => {
      const response = await fetch(`${address.url}/global/event`, {
        headers: { ...headers, accept: "text/event-stream" },
        signal,
      })
      if (response.ok) return response
      throw new AgentCallError(
        "GET /global/event",
        response.status,
        errorDetail(await response.text()),
      )
    },
  }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** OpenCode's errors are `{name, data: {message}}` or a page of HTML; a line of either is enough. */
const errorDetail = (text: string): string => {
  const parsed = z
    .object({
      name: z.string().optional(),
      data: z.object({ message: z.string() }).partial().optional(),
    })
    .safeParse(parseJson(text))
  const named = parsed.success && (parsed.data.data?.message ?? parsed.data.name)
  return (named || text).slice(0, 500)
}

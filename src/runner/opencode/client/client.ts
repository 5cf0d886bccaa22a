/** The typed client of OpenCode's HTTP API. Every call has a deadline and fails with AgentCallError (http-call.ts). */
import { z } from "zod"
import type { PermissionReply } from "../../../wire/permission.ts"
import {
  type AgentExchange,
  type AgentSession,
  type DurableEvent,
  durableEvent,
  exchange,
  type FileDiff,
  fileDiff,
  messagePatches,
  pendingPermission,
  type PendingPermission,
  pendingQuestion,
  type PendingQuestion,
  project,
  providers,
  session,
} from "./response-schemas.ts"
import { type AgentAddress, AgentCallError, createCall, errorOf, headersFor } from "./http-call.ts"
import { statusSchema } from "../events/event-schemas.ts"
import type { SessionStatus } from "../events/events.ts"
import type { ModelRef } from "../config/models.ts"
import type { PromptBody, ProviderModels } from "./types.ts"

export type { AgentExchange, FileDiff } from "./response-schemas.ts"
export { AgentCallError } from "./http-call.ts"
export type { PromptBody, PromptPart, ProviderModels } from "./types.ts"

export interface CommandBody {
  readonly command: string
  readonly arguments: string
  /** `provider/model`. */
  readonly model?: string
  readonly agent?: string
  readonly messageID?: string
}

export interface AgentClient {
  readonly health: () => Promise<{ readonly version: string }>
  /** Fails when OpenCode cannot use its configuration; `health` succeeds even then. */
  readonly checkConfig: () => Promise<void>

  readonly createSession: (title?: string) => Promise<string>
  readonly sessionExists: (agentSessionId: string) => Promise<boolean>
  /** The ids of all agent sessions. */
  readonly sessionIds: () => Promise<readonly string[]>
  readonly readSession: (agentSessionId: string) => Promise<AgentSession>
  readonly deleteSession: (agentSessionId: string) => Promise<void>
  readonly statuses: () => Promise<ReadonlyMap<string, SessionStatus>>

  readonly prompt: (agentSessionId: string, body: PromptBody) => Promise<void>
  readonly abort: (agentSessionId: string) => Promise<void>
  /** Resolves when the turn is done. An unknown command fails with 500. */
  readonly command: (
    agentSessionId: string,
    body: CommandBody,
    signal?: AbortSignal,
  ) => Promise<AgentExchange>
  /** Compacts the conversation; resolves when that is done. */
  readonly summarize: (
    agentSessionId: string,
    model: ModelRef,
    signal?: AbortSignal,
  ) => Promise<void>

  readonly messages: (agentSessionId: string, limit?: number) => Promise<readonly AgentExchange[]>
  /** The snapshots of the messages from this one on, each once. */
  readonly snapshotsFrom: (agentSessionId: string, messageId: string) => Promise<readonly string[]>
  /** The project of the workspace: its snapshots are stored under this id and this path. */
  readonly project: () => Promise<{
    readonly id: string
    readonly worktree: string
    readonly isRepository: boolean
  }>
  readonly deleteMessage: (agentSessionId: string, messageId: string) => Promise<void>
  /** Fails while the session is busy (409; 500 before 1.2). Reverted messages are deleted by the next prompt. */
  readonly revert: (agentSessionId: string, messageId: string) => Promise<AgentSession>
  readonly unrevert: (agentSessionId: string) => Promise<void>
  /** Since 1.2 the diff is empty without a message id. */
  readonly diff: (agentSessionId: string, messageId?: string) => Promise<readonly FileDiff[]>

  /** Requests of aborted turns are never removed from this list and the next: only those of a busy session are open. */
  readonly questions: () => Promise<readonly PendingQuestion[]>
  /** OpenCode 1.18 fails here with 400 while a web fetch without a timeout asks for permission. */
  readonly permissions: () => Promise<readonly PendingPermission[]>
  readonly replyQuestion: (
    requestId: string,
    answers: readonly (readonly string[])[],
  ) => Promise<void>
  readonly rejectQuestion: (requestId: string) => Promise<void>
  readonly replyPermission: (
    permissionId: string,
    reply: PermissionReply,
    message?: string,
  ) => Promise<void>

  /** Names of the connected providers and their models. OpenCode's response also has their keys, which are dropped. */
  readonly models: () => Promise<readonly ProviderModels[]>
  /** `provider/model` of the merged configuration: the project's, or that of an endpoint. */
  readonly configuredModel: () => Promise<string | undefined>

  /** The MCP servers that could not be started or reached, with the reason. Waits until each was tried. */
  readonly failedMcpServers: () => Promise<readonly string[]>

  readonly setAuth: (provider: string, key: string) => Promise<void>
  readonly removeAuth: (provider: string) => Promise<void>
  /** Makes OpenCode read its configuration and files again; aborts running turns. */
  readonly dispose: () => Promise<void>

  /** The response of the event stream; ends when the signal aborts. */
  readonly openEvents: (signal: AbortSignal) => Promise<Response>
  /** Durable events after these sequence numbers. Returns the whole history of every agent session not listed. */
  readonly history: (after: Readonly<Record<string, number>>) => Promise<readonly DurableEvent[]>
}

/** OpenCode never responds to connections made while it starts, so a health check must time out early. */
const HEALTH_MS = 1000
/** The first of these calls makes OpenCode load everything, which is slow on a busy machine. */
const LOADING_MS = 30_000
/** For calls that resolve when a turn is done. */
const TURN_MS = 30 * 60_000

const anyBody = z.unknown()
const configuredModel = z.object({ model: z.string().optional() })
const mcpStatuses = z.record(
  z.string(),
  z.object({ status: z.string(), error: z.string().optional() }),
)
const health = z.object({ healthy: z.literal(true), version: z.string() })

export const createAgentClient = (address: AgentAddress): AgentClient => {
  const call = createCall(address)
  const sessionPath = (agentSessionId: string, rest = "") =>
    `/session/${encodeURIComponent(agentSessionId)}${rest}`
  const messagePath = (agentSessionId: string, messageId: string) =>
    sessionPath(agentSessionId, `/message/${encodeURIComponent(messageId)}`)
  const get = <Schema extends z.ZodType>(path: string, schema: Schema) => call("GET", path, schema)
  const post = async (path: string, body: unknown = {}) => {
    await call("POST", path, anyBody, { body })
  }

  return {
    health: () => call("GET", "/global/health", health, { deadlineMs: HEALTH_MS }),
    checkConfig: async () => {
      await call("GET", "/config", anyBody, { deadlineMs: LOADING_MS })
    },

    createSession: async (title) =>
      (await call("POST", "/session", session, { body: { title } })).id,
    sessionExists: async (agentSessionId) => {
      try {
        return (await get(sessionPath(agentSessionId), session)).id === agentSessionId
      } catch (error) {
        if (error instanceof AgentCallError && error.isDefinite) return false
        throw error
      }
    },
    sessionIds: async () => (await get("/session", z.array(session))).map(({ id }) => id),
    readSession: (agentSessionId) => get(sessionPath(agentSessionId), session),
    deleteSession: async (agentSessionId) => {
      await call("DELETE", sessionPath(agentSessionId), anyBody)
    },
    statuses: async () =>
      new Map(Object.entries(await get("/session/status", z.record(z.string(), statusSchema)))),

    prompt: (agentSessionId, body) => post(sessionPath(agentSessionId, "/prompt_async"), body),
    abort: (agentSessionId) => post(sessionPath(agentSessionId, "/abort")),
    command: (agentSessionId, body, signal) =>
      call("POST", sessionPath(agentSessionId, "/command"), exchange, {
        body,
        deadlineMs: TURN_MS,
        signal,
      }),
    summarize: async (agentSessionId, body, signal) => {
      await call("POST", sessionPath(agentSessionId, "/summarize"), anyBody, {
        body,
        deadlineMs: TURN_MS,
        signal,
      })
    },

    messages: (agentSessionId, limit) =>
      get(
        sessionPath(agentSessionId, limit === undefined ? "/message" : `/message?limit=${limit}`),
        z.array(exchange),
      ),
    snapshotsFrom: async (agentSessionId, messageId) => {
      const all = await get(sessionPath(agentSessionId, "/message"), messagePatches)
      const start = all.findIndex((message) => message.messageId === messageId)
      return [...new Set(all.slice(Math.max(0, start)).flatMap(({ hashes }) => hashes))]
    },
    project: () => get("/project/current", project),
    deleteMessage: async (agentSessionId, messageId) => {
      await call("DELETE", messagePath(agentSessionId, messageId), anyBody)
    },
    revert: (agentSessionId, messageID) =>
      call("POST", sessionPath(agentSessionId, "/revert"), session, { body: { messageID } }),
    unrevert: (agentSessionId) => post(sessionPath(agentSessionId, "/unrevert")),
    diff: (agentSessionId, messageId) => {
      const query = messageId === undefined ? "" : `?messageID=${encodeURIComponent(messageId)}`
      return get(sessionPath(agentSessionId, `/diff${query}`), z.array(fileDiff))
    },

    questions: () => get("/question", z.array(pendingQuestion)),
    permissions: () => get("/permission", z.array(pendingPermission)),
    replyQuestion: (requestId, answers) =>
      post(`/question/${encodeURIComponent(requestId)}/reply`, { answers }),
    rejectQuestion: (requestId) => post(`/question/${encodeURIComponent(requestId)}/reject`),
    replyPermission: (permissionId, reply, message) =>
      post(`/permission/${encodeURIComponent(permissionId)}/reply`, { reply, message }),

    models: () => call("GET", "/config/providers", providers, { deadlineMs: LOADING_MS }),
    configuredModel: async () =>
      (await call("GET", "/config", configuredModel, { deadlineMs: LOADING_MS })).model,

    failedMcpServers: async () =>
      Object.entries(await call("GET", "/mcp", mcpStatuses, { deadlineMs: LOADING_MS })).flatMap(
        ([name, { status, error }]) =>
          status === "failed" ? [`${name} (${error ?? "unknown reason"})`] : [],
      ),

    setAuth: async (provider, key) => {
      const body = { type: "api", key }
      await call("PUT", `/auth/${encodeURIComponent(provider)}`, anyBody, { body })
    },
    removeAuth: async (provider) => {
      await call("DELETE", `/auth/${encodeURIComponent(provider)}`, anyBody)
    },
    dispose: async () => {
      await call("POST", "/instance/dispose", anyBody, { body: {}, deadlineMs: LOADING_MS })
    },

    openEvents: (signal) => openEvents(address, signal),
    history: (after) => call("POST", "/sync/history", z.array(durableEvent), { body: after }),
  }
}

/** Prefers `/global/event`, which survives a dispose; versions without it have `/event` for this directory. */
const openEvents = async (address: AgentAddress, signal: AbortSignal): Promise<Response> => {
  const open = (path: string) =>
    fetch(address.url + path, {
      headers: { ...headersFor(address), accept: "text/event-stream" },
      signal,
      // The reader checks for silence; Bun's own timeout would cut a stream that is merely idle.
      timeout: false,
    })
  const isStream = (response: Response) =>
    response.ok && (response.headers.get("content-type") ?? "").includes("text/event-stream")
  const global = await open("/global/event")
  if (isStream(global)) return global
  await global.body?.cancel()
  const local = await open("/event")
  if (isStream(local)) return local
  throw new AgentCallError("GET /event", local.status, errorOf(await local.text()))
}

/** OpenCode's HTTP calls, each typed, each with a deadline. What they may fail with stands in call.ts. */
import { z } from "zod"
import {
  type AgentExchange,
  type AgentSession,
  type DurableEvent,
  durableEvent,
  exchange,
  type FileDiff,
  fileDiff,
  pendingPermission,
  type PendingPermission,
  pendingQuestion,
  type PendingQuestion,
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

export type PermissionReply = "once" | "always" | "reject"

export interface AgentClient {
  readonly health: () => Promise<{ readonly version: string }>
  /** Fails when OpenCode cannot use its configuration; health says nothing of it. */
  readonly checkConfig: () => Promise<void>

  readonly createSession: (title?: string) => Promise<string>
  readonly sessionExists: (agentSessionId: string) => Promise<boolean>
  /** Of every session there is. */
  readonly sessionIds: () => Promise<readonly string[]>
  readonly readSession: (agentSessionId: string) => Promise<AgentSession>
  readonly deleteSession: (agentSessionId: string) => Promise<void>
  readonly statuses: () => Promise<ReadonlyMap<string, SessionStatus>>

  readonly prompt: (agentSessionId: string, body: PromptBody) => Promise<void>
  readonly abort: (agentSessionId: string) => Promise<void>
  /** Answers when the turn is done. An unknown command fails with 500. */
  readonly command: (
    agentSessionId: string,
    body: CommandBody,
    signal?: AbortSignal,
  ) => Promise<AgentExchange>
  /** Compaction; answers when it is done. */
  readonly summarize: (
    agentSessionId: string,
    model: ModelRef,
    signal?: AbortSignal,
  ) => Promise<void>

  readonly messages: (agentSessionId: string, limit?: number) => Promise<readonly AgentExchange[]>
  readonly deleteMessage: (agentSessionId: string, messageId: string) => Promise<void>
  /** Fails while the session is busy (409; 500 before 1.2). The messages stay until the next prompt. */
  readonly revert: (agentSessionId: string, messageId: string) => Promise<AgentSession>
  readonly unrevert: (agentSessionId: string) => Promise<void>
  /** Since 1.2 nothing comes without a message to look at. */
  readonly diff: (agentSessionId: string, messageId?: string) => Promise<readonly FileDiff[]>

  /** Requests of aborted turns stay in both lists for ever: only those of a busy session are open. */
  readonly questions: () => Promise<readonly PendingQuestion[]>
  /** OpenCode 1.18 fails here with 400 while a web fetch without a time limit asks. */
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

  /** Names of the connected providers and their models; OpenCode's own answer holds their keys and is not kept. */
  readonly models: () => Promise<readonly ProviderModels[]>

  readonly setAuth: (provider: string, key: string) => Promise<void>
  readonly removeAuth: (provider: string) => Promise<void>
  /** Has configuration and new files read again; aborts what runs. */
  readonly dispose: () => Promise<void>

  /** The event stream's response; it ends with the signal. */
  readonly openEvents: (signal: AbortSignal) => Promise<Response>
  /** What is durable after these numbers; a session that is not named comes with all it has. */
  readonly history: (after: Readonly<Record<string, number>>) => Promise<readonly DurableEvent[]>
}

/** OpenCode never answers connections made while it is just coming up, so a health call must give up early. */
const HEALTH_MS = 1000
/** The first of these makes OpenCode load everything it has, which takes long where the machine is busy. */
const LOADING_MS = 30_000
/** Calls that answer when a turn is done. */
const TURN_MS = 30 * 60_000

const done = z.unknown()
const health = z.object({ healthy: z.literal(true), version: z.string() })

export const createAgentClient = (address: AgentAddress): AgentClient => {
  const call = createCall(address)
  const of = (agentSessionId: string, rest = "") =>
    `/session/${encodeURIComponent(agentSessionId)}${rest}`
  const messageOf = (agentSessionId: string, messageId: string) =>
    of(agentSessionId, `/message/${encodeURIComponent(messageId)}`)
  const get = <Schema extends z.ZodType>(path: string, schema: Schema) => call("GET", path, schema)
  const post = async (path: string, body: unknown = {}) => {
    await call("POST", path, done, { body })
  }

  return {
    health: () => call("GET", "/global/health", health, { deadlineMs: HEALTH_MS }),
    checkConfig: async () => {
      await call("GET", "/config", done, { deadlineMs: LOADING_MS })
    },

    createSession: async (title) =>
      (await call("POST", "/session", session, { body: { title } })).id,
    sessionExists: async (agentSessionId) => {
      try {
        return (await get(of(agentSessionId), session)).id === agentSessionId
      } catch (error) {
        if (error instanceof AgentCallError && error.isDefinite) return false
        throw error
      }
    },
    sessionIds: async () => (await get("/session", z.array(session))).map(({ id }) => id),
    readSession: (agentSessionId) => get(of(agentSessionId), session),
    deleteSession: async (agentSessionId) => {
      await call("DELETE", of(agentSessionId), done)
    },
    statuses: async () =>
      new Map(Object.entries(await get("/session/status", z.record(z.string(), statusSchema)))),

    prompt: (agentSessionId, body) => post(of(agentSessionId, "/prompt_async"), body),
    abort: (agentSessionId) => post(of(agentSessionId, "/abort")),
    command: (agentSessionId, body, signal) =>
      call("POST", of(agentSessionId, "/command"), exchange, { body, deadlineMs: TURN_MS, signal }),
    summarize: async (agentSessionId, body, signal) => {
      await call("POST", of(agentSessionId, "/summarize"), done, {
        body,
        deadlineMs: TURN_MS,
        signal,
      })
    },

    messages: (agentSessionId, limit) =>
      get(
        of(agentSessionId, limit === undefined ? "/message" : `/message?limit=${limit}`),
        z.array(exchange),
      ),
    deleteMessage: async (agentSessionId, messageId) => {
      await call("DELETE", messageOf(agentSessionId, messageId), done)
    },
    revert: (agentSessionId, messageID) =>
      call("POST", of(agentSessionId, "/revert"), session, { body: { messageID } }),
    unrevert: (agentSessionId) => post(of(agentSessionId, "/unrevert")),
    diff: (agentSessionId, messageId) => {
      const query = messageId === undefined ? "" : `?messageID=${encodeURIComponent(messageId)}`
      return get(of(agentSessionId, `/diff${query}`), z.array(fileDiff))
    },

    questions: () => get("/question", z.array(pendingQuestion)),
    permissions: () => get("/permission", z.array(pendingPermission)),
    replyQuestion: (requestId, answers) =>
      post(`/question/${encodeURIComponent(requestId)}/reply`, { answers }),
    rejectQuestion: (requestId) => post(`/question/${encodeURIComponent(requestId)}/reject`),
    replyPermission: (permissionId, reply, message) =>
      post(`/permission/${encodeURIComponent(permissionId)}/reply`, { reply, message }),

    models: () => call("GET", "/config/providers", providers, { deadlineMs: LOADING_MS }),

    setAuth: async (provider, key) => {
      const body = { type: "api", key }
      await call("PUT", `/auth/${encodeURIComponent(provider)}`, done, { body })
    },
    removeAuth: async (provider) => {
      await call("DELETE", `/auth/${encodeURIComponent(provider)}`, done)
    },
    dispose: async () => {
      await call("POST", "/instance/dispose", done, { body: {}, deadlineMs: LOADING_MS })
    },

    openEvents: (signal) => openEvents(address, signal),
    history: (after) => call("POST", "/sync/history", z.array(durableEvent), { body: after }),
  }
}

/** The stream of all directories, which survives a dispose; else that of this one. */
const openEvents = async (address: AgentAddress, signal: AbortSignal): Promise<Response> => {
  const open = (path: string) =>
    fetch(address.url + path, {
      headers: { ...headersFor(address), accept: "text/event-stream" },
      signal,
      // Liveness is the reader's business; the runtime's own limit knows nothing of heartbeats.
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

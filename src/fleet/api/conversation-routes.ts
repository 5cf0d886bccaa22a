/** Routes about conversations: chats, threads, and prompts for their agents. The first call of a conversation makes its session. */
import { shortDigest } from "../../lib/digest.ts"
import { bodies } from "../core/bodies.ts"
import { isGivenUp } from "../core/life.ts"
import type { RouteName } from "../core/routes.ts"
import { logResolve } from "../follow-hub.ts"
import { isNewProvision, statusOf } from "../core/statuses.ts"
import type { StoredSession } from "../store/ports.ts"
import {
  ApiError,
  type ApiParts,
  containerUrlOf,
  flagOf,
  type Handler,
  MAX_WAIT_MS,
  readBody,
  refuseAboveQuota,
  refuseAsleepElsewhere,
  refuseEnded,
  viewOf,
  wake,
} from "./api-call.ts"

type Name = Extract<
  RouteName,
  | "prepare-invoke"
  | "by-chat"
  | "agent-invoke"
  | "agent-resume"
  | "thread-resolve"
  | "thread-prompt"
  | "thread-stop"
>

/** How long a stopped turn may take to end. */
const STOP_MS = 10_000

/** After this time the hub's report of a prompt that it has taken has arrived, unless the hub is away. */
const REPORT_MS = 5000

/** Sessions of the operator have the names of before there were owners. */
const LOCAL = "user:local"
const nameOf = (kind: "thread" | "chat", owner: string, key: string): string => {
  const text = owner === LOCAL && kind === "thread" ? key : JSON.stringify([owner, key])
  return `${kind}-${shortDigest(text, 24)}`
}
const chatKey = (chat: string): string => `chat-session/${chat}`

export const conversationRoutes = (parts: ApiParts): Readonly<Record<Name, Handler>> => {
  const { keeper, store, provider, hub, follower, pool, log } = parts

  const open = async (
    kind: "thread" | "chat",
    owner: string,
    key: string,
  ): Promise<StoredSession> => {
    const threadKey = kind === "chat" ? chatKey(key) : key
    const known = await store.findThread(owner, threadKey)
    if (known) return pool.settle(known)
    const id = nameOf(kind, owner, key)
    // Its record was deleted: the conversation goes on in its own session.
    const hadSandbox = (await store.history(id, owner, 1)).length > 0
    const warm = hadSandbox ? undefined : await pool.claim(owner, threadKey)
    if (warm) return warm
    const generation = await hub.open(id, owner)
    return follower.record(id, owner, generation, { threadKey })
  }

  const start = async (session: StoredSession): Promise<StoredSession> => {
    refuseEnded(session)
    refuseAsleepElsewhere(session)
    await refuseAboveQuota(parts, session)
    const { id, life } = session
    logResolve(log, id, life)
    return wake(parts, session)
  }

  const fresh = async (session: StoredSession) => (await store.find(session.id)) ?? session

  const isWanted = ({ life }: StoredSession) => life.wanted === "running"
  const runs = ({ life }: StoredSession) => life.phase === "running" || isGivenUp(life)
  /** One that nobody wants to run does not come: its caller is told what it is. */
  const waited = async (session: StoredSession, seconds: number): Promise<StoredSession> => {
    if (seconds <= 0) return session
    const { id } = session
    const limit = AbortSignal.timeout(Math.min(MAX_WAIT_MS, seconds * 1000))
    if (session.life.wanted === "asleep" && !runs(session)) {
      const soon = AbortSignal.any([limit, AbortSignal.timeout(REPORT_MS)])
      await keeper.waitFor(id, isWanted, soon)
    }
    return (await keeper.waitFor(id, (row) => runs(row) || !isWanted(row), limit)) ?? session
  }

  const agentAnswer = async (session: StoredSession, messageId: string | undefined) => {
    const { status, providerSandboxId } = statusOf(session.life)
    return {
      sandbox_session_id: session.id,
      ...(messageId !== undefined && { message_id: messageId }),
      status,
      provider_sandbox_id: providerSandboxId,
      sandbox_provider: session.provider,
      sandbox_url: await containerUrlOf(provider, session),
    }
  }

  const checkProvider = (session: StoredSession, given: string | null | undefined): void => {
    if (given !== undefined && given !== null && given !== session.provider)
      throw new ApiError(
        409,
        "another-provider",
        `the session ${session.id} has its sandboxes at ${session.provider}`,
      )
  }

  return {
    "prepare-invoke": async ({ body, owner }) => {
      const { chatSessionId, expertIdentifier } = readBody(bodies["prepare-invoke"], body)
      if (expertIdentifier !== undefined && expertIdentifier !== null)
        throw new ApiError(
          404,
          "no-such-expert",
          "expertIdentifier: this deployment has no experts; leave it out",
        )
      const session = await start(await open("chat", owner, chatSessionId))
      const { status, providerSandboxId } = statusOf(session.life)
      return {
        data: {
          sandboxSession: {
            id: session.id,
            status,
            providerSandboxId,
            provider: session.provider,
            containerUrl: await containerUrlOf(provider, session),
            isNewProvision: isNewProvision(session.life, provider.can.volumes),
          },
        },
      }
    },
    "by-chat": async ({ params, owner, url }) => {
      const chat = params["chat"] ?? ""
      const known = await store.findThread(owner, chatKey(chat))
      if (!known) throw new ApiError(404, "not-found", `the chat ${chat} has no sandbox`)
      const session = await waited(known, Number(url.searchParams.get("waitSeconds") ?? 0) || 0)
      const { status, providerSandboxId } = statusOf(session.life)
      return {
        sessionId: session.id,
        providerSandboxId,
        provider: session.provider,
        status,
        containerUrl: await containerUrlOf(provider, session),
      }
    },
    "agent-invoke": async ({ body, mustPrompt }) => {
      const given = readBody(bodies["agent-invoke"], body)
      const { sandbox_mode: mode, message, message_id: messageId = crypto.randomUUID() } = given
      // The caller runs the agent itself: there is nothing to start here.
      if (mode !== "cloud") return { sandbox_mode: mode, sandbox_session_id: null }
      const session = await mustPrompt(given.sandbox_session_id ?? "")
      checkProvider(session, given.sandbox_provider)
      refuseEnded(session)
      await hub.prompt(session.id, messageId, message)
      return agentAnswer(await fresh(session), messageId)
    },
    "agent-resume": async ({ body, mustPrompt }) => {
      const given = readBody(bodies["agent-resume"], body)
      const session = await mustPrompt(given.sandbox_session_id)
      checkProvider(session, given.sandbox_provider)
      const started = await start(session)
      if (given.message === undefined) return agentAnswer(started, undefined)
      const messageId = given.message_id ?? crypto.randomUUID()
      await hub.prompt(session.id, messageId, given.message)
      return agentAnswer(await fresh(session), messageId)
    },
    "thread-resolve": async ({ params, owner, url }) => {
      const seconds = flagOf(url, "wait") ? MAX_WAIT_MS / 1000 : 0
      const session = await start(await open("thread", owner, params["thread"] ?? ""))
      return viewOf(await waited(session, seconds))
    },
    "thread-prompt": async ({ params, owner, body }) => {
      const { message, messageId = crypto.randomUUID() } = readBody(bodies["thread-prompt"], body)
      const session = await open("thread", owner, params["thread"] ?? "")
      refuseEnded(session)
      await hub.prompt(session.id, messageId, message)
      return viewOf(await fresh(session))
    },
    "thread-stop": async ({ params, owner }) => {
      const thread = params["thread"] ?? ""
      const session = await store.findThread(owner, thread)
      if (!session) throw new ApiError(404, "not-found", `the thread ${thread} has no session`)
      refuseEnded(session)
      await hub.stop(session.id)
      // A sandbox at work is kept awake: it can sleep when the end of the turn is known.
      await keeper.waitFor(
        session.id,
        ({ life }) => life.runner !== "busy",
        AbortSignal.timeout(STOP_MS),
      )
      return viewOf((await keeper.want(session.id, "asleep")) ?? session)
    },
  }
}

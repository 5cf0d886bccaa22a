/** Handlers of the requests that need more than the shared store: other sessions, child sessions, the git host. */
import { z } from "zod"
import { channelAddress, channelKey, MAIN_CHANNEL } from "../../wire/channel.ts"
import type { Session } from "../session/session.ts"
import type { SessionStatus } from "../session/session-facts.ts"
import type { Children, Persona } from "./children-port.ts"
import type { GitHost } from "./git-host.ts"
import type { ObjectStorage } from "../object-storage.ts"
import { workspaceUrls } from "./workspace-urls.ts"
import { type ExternalHandlers, nameOfRequest, Refusal } from "./handler-table.ts"

/** Another session of the hub: in this process (Bun) or in its own Durable Object, where each call is asynchronous. */
export interface OtherSession {
  readonly status: () => SessionStatus | Promise<SessionStatus>
  readonly recent: (limit: number) => Recent | Promise<Recent>
  readonly prompt: (...args: Parameters<Session["prompt"]>) => void | Promise<void>
  readonly note: (...args: Parameters<Session["note"]>) => void | Promise<void>
  readonly channels: () => readonly string[] | Promise<readonly string[]>
  readonly hasPromptFrom: (channel: string) => boolean | Promise<boolean>
}

type Later<T> = T | Promise<T>

const personaShape = z.object({ slug: z.string(), content: z.string() })

type Recent = ReturnType<Session["recent"]>

export interface ExternalHandlerOptions {
  readonly find: (session: string) => Promise<OtherSession | undefined>
  readonly children: Pick<Children, "spawn" | "of" | "terminate">
  /** The personas of the owner. */
  readonly personas: () => Later<readonly Record<string, unknown>[]>
  readonly git: GitHost
  /** Where workspaces are stored; undefined if the deployment has none. */
  readonly storage: ObjectStorage | undefined
  /** Why the agent may not write to a channel. `isOwn`: the session has had prompts from there. */
  readonly chatProblem: (
    channelType: string,
    channelId: string,
    isOwn: boolean,
  ) => string | undefined
}

export const createExternalHandlers = ({
  find,
  children,
  personas,
  git,
  storage,
  chatProblem,
}: ExternalHandlerOptions): ExternalHandlers => {
  const mustFind = async (id: string): Promise<OtherSession> => {
    const session = await find(id)
    if (!session) throw new Refusal(`there is no session ${id}`)
    return session
  }
  const findPersona = async (slug: string): Promise<Persona> => {
    const known = z.array(personaShape).parse(await personas())
    const found = known.find((one) => one.slug === slug)
    if (found) return found
    const names = known.map((one) => one.slug).join(", ")
    throw new Refusal(
      `persona: ${slug} does not exist: there ${names === "" ? "is none" : `are ${names}`}`,
    )
  }
  return {
    "workspace-urls": workspaceUrls(storage),
    "spawn-child": async ({ persona, ...task }, { session, requestId }) => ({
      childSessionId: await children.spawn(session, requestId, {
        ...task,
        persona: persona === undefined ? undefined : await findPersona(persona),
      }),
    }),
    "terminate-child": async ({ childSessionId }, { session }) => {
      await children.terminate(session, childSessionId, "ended by its parent session")
      return { success: true }
    },
    "list-child-sessions": async (_fields, { session }) => ({
      children: [...(await children.of(session))],
    }),
    "get-session-status": async ({ targetSessionId }) => {
      const target = await mustFind(targetSessionId)
      return { sessionStatus: { id: targetSessionId, ...(await target.status()) } }
    },
    "session-message": async ({ targetSessionId, content, interrupt }, { session, requestId }) => {
      const target = await mustFind(targetSessionId)
      if ((await target.status()).status === "ended")
        throw new Refusal(`the session ${targetSessionId} has ended`)
      const prompt = {
        type: "prompt",
        messageId: `message-${nameOfRequest(session, requestId)}`,
        content,
        authorName: `session ${session}`,
        ...channelAddress(MAIN_CHANNEL),
      } as const
      await target.prompt(prompt, MAIN_CHANNEL, {
        interrupt: interrupt === true,
        fromSession: session,
      })
      return { success: true }
    },
    "session-messages": async ({ targetSessionId, limit, after }) => ({
      messages: [...(await readConversation(await mustFind(targetSessionId), limit, after))],
    }),
    "forward-messages": async ({ targetSessionId, limit, after }, { session, requestId }) => {
      const messages = await readConversation(await mustFind(targetSessionId), limit, after)
      const here = await mustFind(session)
      for (const [index, { role, content }] of messages.entries()) {
        await here.note({
          id: `forwarded-${requestId}-${index}`,
          role: "system",
          content: `${role} in ${targetSessionId}: ${content}`,
        })
      }
      return { count: messages.length, sourceSessionId: targetSessionId }
    },
    "list-channels": async (_fields, { session }) => {
      const keys = await (await mustFind(session)).channels()
      return { channels: keys.map((key) => ({ channelKey: key, ...channelAddress(key) })) }
    },
    "channel-reply": async (reply, { session, requestId }) => {
      const { message, imageBase64, imageMimeType } = reply
      const here = await mustFind(session)
      const channel = channelKey(reply)
      const isOwn = channel === MAIN_CHANNEL || (await here.hasPromptFrom(channel))
      const problem = chatProblem(reply.channelType, reply.channelId, isOwn)
      if (problem !== undefined) throw new Refusal(problem)
      await here.note({
        id: `reply-${requestId}`,
        role: "assistant",
        content: message,
        channel,
        reply: true,
        followUp: reply.followUp === true,
        ...(imageBase64 !== undefined && {
          image: { base64: imageBase64, mime: imageMimeType ?? "image/png" },
        }),
      })
      return { success: true }
    },
    ...git,
  }
}

interface ConversationMessage {
  readonly id: string
  readonly role: string
  readonly content: string
  readonly createdAt: number
}

/** Also the furthest back that `after` can reach. */
const MAX_MESSAGES = 200

const readConversation = async (
  session: OtherSession,
  limit = 50,
  after?: string,
): Promise<readonly ConversationMessage[]> => {
  const messages = (await session.recent(MAX_MESSAGES)).map(({ id, role, createdAt, parts }) => ({
    id,
    role,
    createdAt,
    content: parts
      .flatMap((part) => (part.kind === "text" && part.data === undefined ? [part.text ?? ""] : []))
      .join(""),
  }))
  const index = messages.findIndex(({ id }) => id === after)
  const since = Date.parse(after ?? "")
  if (after !== undefined && index === -1 && Number.isNaN(since)) {
    throw new Refusal("after: must be the id of a message or a time")
  }
  const later =
    index === -1
      ? messages.filter(({ createdAt }) => Number.isNaN(since) || createdAt > since)
      : messages.slice(index + 1)
  return after === undefined ? later.slice(-limit) : later.slice(0, limit)
}

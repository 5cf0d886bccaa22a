/** Requests that reach beyond the tables: other sessions, child processes, the git host. */
import { channelAddress, channelKey } from "../../wire/channel.ts"
import type { Session, SessionStatus } from "../session/session.ts"
import type { Children } from "../hosts/bun/children.ts"
import type { GitHost } from "./git-host.ts"
import { type OutsideHandlers, Refusal } from "./handler-table.ts"

/** Another session, wherever it lives: in this process, or in an object of its own. */
export interface Neighbour {
  readonly status: () => SessionStatus | Promise<SessionStatus>
  readonly recent: (limit: number) => Recent | Promise<Recent>
  readonly prompt: (...asked: Parameters<Session["prompt"]>) => void | Promise<void>
  readonly note: (...noted: Parameters<Session["note"]>) => void | Promise<void>
  readonly channels: () => readonly string[] | Promise<readonly string[]>
}

type Recent = ReturnType<Session["recent"]>

export interface OutsideOptions {
  readonly find: (session: string) => Promise<Neighbour | undefined>
  readonly children: Children
  readonly git: GitHost
  readonly personas: () => readonly Record<string, unknown>[]
}

export const outsideHandlers = ({
  find,
  children,
  git,
  personas,
}: OutsideOptions): OutsideHandlers => {
  const mustFind = async (id: string): Promise<Neighbour> => {
    const session = await find(id)
    if (!session) throw new Refusal(`there is no session ${id}`)
    return session
  }
  return {
    "spawn-child": async (task, { session, requestId }) => ({
      childSessionId: await children.spawn(session, requestId, task),
    }),
    "terminate-child": async ({ childSessionId }, { session }) => {
      children.mustOwn(session, childSessionId)
      await children.terminate(childSessionId, "ended by its parent")
      return { success: true }
    },
    "list-child-sessions": async (_fields, { session }) => ({
      children: [...children.of(session)],
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
        messageId: `message-${requestId}`,
        content,
        authorName: `session ${session}`,
        ...channelAddress("web:default"),
      } as const
      await target.prompt(prompt, "web:default", { interrupt: interrupt === true })
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
      await here.note({
        id: `reply-${requestId}`,
        role: "assistant",
        content: message,
        channel: channelKey(reply),
        ...(imageBase64 !== undefined && {
          image: { base64: imageBase64, mime: imageMimeType ?? "image/png" },
        }),
      })
      return { success: true }
    },
    "list-personas": async () => ({ personas: [...personas()] }),
    ...git,
  }
}

interface Line {
  readonly id: string
  readonly role: string
  readonly content: string
  readonly createdAt: number
}

const MOST = 200

const readConversation = async (
  session: Neighbour,
  limit = 50,
  after?: string,
): Promise<readonly Line[]> => {
  const lines = (await session.recent(MOST)).map(({ id, role, createdAt, parts }) => ({
    id,
    role,
    createdAt,
    content: parts.flatMap((part) => (part.kind === "text" ? [part.text ?? ""] : [])).join(""),
  }))
  const place = lines.findIndex(({ id }) => id === after)
  const since = Date.parse(after ?? "")
  if (after !== undefined && place === -1 && Number.isNaN(since)) {
    throw new Refusal("after: must be a message's id or a time")
  }
  const later =
    place === -1
      ? lines.filter(({ createdAt }) => Number.isNaN(since) || createdAt > since)
      : lines.slice(place + 1)
  return after === undefined ? later.slice(-limit) : later.slice(0, limit)
}

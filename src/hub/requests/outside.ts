/** Requests that reach beyond the tables: other sessions, child processes, the git host. */
import { channelAddress, channelKey } from "../core/channel.ts"
import type { Session } from "../core/session.ts"
import type { Children } from "./children.ts"
import type { GitHost } from "./git-host.ts"
import { type OutsideHandlers, Refusal } from "./table.ts"

export interface OutsideOptions {
  readonly find: (session: string) => Session | undefined
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
  const mustFind = (id: string): Session => {
    const session = find(id)
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
    "list-child-sessions": async (_fields, { session }) => ({ children: [...children.of(session)] }),
    "get-session-status": async ({ targetSessionId }) => ({
      sessionStatus: { id: targetSessionId, ...mustFind(targetSessionId).status() },
    }),
    "session-message": async ({ targetSessionId, content, interrupt }, { session, requestId }) => {
      const target = mustFind(targetSessionId)
      if (target.status().status === "ended") throw new Refusal(`the session ${targetSessionId} has ended`)
      const prompt = {
        type: "prompt",
        messageId: `message-${requestId}`,
        content,
        authorName: `session ${session}`,
        ...channelAddress("web:default"),
      } as const
      target.prompt(prompt, "web:default", { interrupt: interrupt === true })
      return { success: true }
    },
    "session-messages": async ({ targetSessionId, limit, after }) => ({
      messages: [...readConversation(mustFind(targetSessionId), limit, after)],
    }),
    "forward-messages": async ({ targetSessionId, limit, after }, { session, requestId }) => {
      const messages = readConversation(mustFind(targetSessionId), limit, after)
      for (const [index, { role, content }] of messages.entries()) {
        mustFind(session).note({
          id: `forwarded-${requestId}-${index}`,
          role: "system",
          content: `${role} in ${targetSessionId}: ${content}`,
        })
      }
      return { count: messages.length, sourceSessionId: targetSessionId }
    },
    "list-channels": async (_fields, { session }) => ({
      channels: mustFind(session)
        .channels()
        .map((key) => ({ channelKey: key, ...channelAddress(key) })),
    }),
    "channel-reply": async (reply, { session, requestId }) => {
      const { message, imageBase64, imageMimeType } = reply
      mustFind(session).note({
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

const readConversation = (
  session: Session,
  limit = 50,
  after: string | undefined = undefined,
): readonly Line[] => {
  const lines = session.recent(MOST).map(({ id, role, createdAt, parts }) => ({
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
  const later = place === -1 ? lines.filter(({ createdAt }) => Number.isNaN(since) || createdAt > since) : lines.slice(place + 1)
  return after === undefined ? later.slice(-limit) : later.slice(0, limit)
}

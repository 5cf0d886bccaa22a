/** A client like a web page: it keeps the session's state by snapshot, changes and live events. */
import type {
  Interaction,
  MessagePart,
  MessageWithParts,
  NumberedEvent,
  QueuedPrompt,
  Snapshot,
} from "../../../src/wire/clients/conversation.ts"
import { untilTrue } from "../../kit/until-true.ts"

type ReceivedEvent =
  | Snapshot
  | NumberedEvent
  | { readonly type: "changes"; readonly rev: number; readonly events: readonly NumberedEvent[] }
  | { readonly type: "reply"; readonly clientRequestId: string }

export interface TestClient {
  readonly messages: () => readonly MessageWithParts[]
  /** The text of the agent's answer to a prompt. */
  readonly answerTo: (promptId: string) => string
  readonly queue: () => readonly QueuedPrompt[]
  readonly state: (name: string) => unknown
  readonly interactions: () => readonly Interaction[]
  readonly states: () => ReadonlyMap<string, unknown>
  readonly events: readonly Record<string, unknown>[]
  readonly cursor: () => number
  /** Number of deltas whose offset is beyond the text that the client has. */
  readonly gaps: () => number
  readonly ask: (message: Record<string, unknown>) => Promise<Record<string, unknown>>
  readonly until: (condition: () => boolean, what: string, ms?: number) => Promise<void>
  readonly isOpen: () => boolean
  readonly close: () => void
}

export const connectClient = async (
  url: string,
  token: string,
  options: { readonly session?: string; readonly from?: TestClient; readonly cursor?: number } = {},
): Promise<TestClient> => {
  const { session = "s1", from } = options
  const messages = new Map<string, MessageWithParts>(
    from?.messages().map((message) => [message.id, structuredClone(message)]),
  )
  const events: Record<string, unknown>[] = []
  const replies = new Map<string, (reply: Record<string, unknown>) => void>()
  const state = new Map<string, unknown>(from?.states())
  const interactions = new Map<string, Interaction>()
  // The changes since the cursor contain the queue only if it has changed.
  let queue: readonly QueuedPrompt[] = from?.queue() ?? []
  let cursor = options.cursor ?? from?.cursor() ?? 0
  let gaps = 0
  let requests = 0
  let isSubscribed = false

  const apply = (event: ReceivedEvent): void => {
    if ("rev" in event) cursor = Math.max(cursor, event.rev)
    switch (event.type) {
      case "snapshot":
        isSubscribed = true
        messages.clear()
        for (const message of event.messages) messages.set(message.id, message)
        queue = event.queue
        for (const one of event.interactions) interactions.set(one.id, one)
        for (const [name, value] of Object.entries(event.state)) state.set(name, value)
        return
      case "changes":
        isSubscribed = true
        return event.events.forEach(apply)
      case "message":
        messages.set(event.message.id, {
          ...event.message,
          parts: messages.get(event.message.id)?.parts ?? [],
        })
        return
      case "part":
        return putPart(event.messageId, event.part)
      case "part.delta":
        return growPart(event.messageId, event.partId, event.offset, event.text)
      case "part.removed": {
        const message = messages.get(event.messageId)
        const parts = message?.parts.filter(({ id }) => id !== event.partId)
        if (message && parts) messages.set(event.messageId, { ...message, parts })
        return
      }
      case "removed":
        messages.delete(event.messageId)
        return
      case "queue":
        queue = event.queue
        return
      case "interaction":
        interactions.set(event.interaction.id, event.interaction)
        return
      case "state":
        state.set(event.name, event.value)
        return
      case "reply":
        replies.get(event.clientRequestId)?.({ ...event })
        return
      default:
        return
    }
  }

  const putPart = (messageId: string, part: MessagePart): void => {
    const parts = messages.get(messageId)?.parts ?? []
    const index = parts.findIndex(({ id }) => id === part.id)
    if (index === -1) parts.push(part)
    else parts[index] = part
  }

  const growPart = (messageId: string, partId: string, offset: number, text: string): void => {
    const part = messages.get(messageId)?.parts.find(({ id }) => id === partId)
    const known = part?.text ?? ""
    if (!part || offset > known.length) gaps += 1
    else part.text = known.slice(0, offset) + text + known.slice(offset + text.length)
  }

  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/sessions/${session}/ws?role=client`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  socket.addEventListener("message", ({ data }) => {
    const event = JSON.parse(String(data)) as ReceivedEvent
    events.push({ ...event })
    apply(event)
  })
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve())
    socket.addEventListener("error", () => reject(new Error("the hub refused the client")))
  })
  const resume = options.cursor !== undefined || from !== undefined
  socket.send(JSON.stringify({ type: "subscribe", ...(resume && { cursor }) }))
  await untilTrue(() => isSubscribed, "snapshot or changes")

  return {
    messages: () => [...messages.values()],
    answerTo: (promptId) =>
      [...messages.values()]
        .filter((message) => message.role === "assistant" && message.promptId === promptId)
        .flatMap(({ parts }) =>
          parts.flatMap((part) => (part.kind === "text" ? [part.text ?? ""] : [])),
        )
        .join(""),
    queue: () => queue,
    state: (name) => state.get(name),
    interactions: () => [...interactions.values()],
    states: () => state,
    events,
    cursor: () => cursor,
    gaps: () => gaps,
    ask: (message) => {
      requests += 1
      const clientRequestId =
        (message["clientRequestId"] as string | undefined) ?? `ask-${requests}`
      const reply = new Promise<Record<string, unknown>>((resolve) =>
        replies.set(clientRequestId, resolve),
      )
      socket.send(JSON.stringify({ ...message, clientRequestId }))
      return reply
    },
    until: untilTrue,
    isOpen: () => socket.readyState === WebSocket.OPEN,
    close: () => socket.close(),
  }
}

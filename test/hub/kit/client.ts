/** A client as a page would be: keeps the session as it is told, by snapshot, changes and live events. */
import { until } from "./until.ts"

interface Part {
  readonly id: string
  readonly kind: string
  text?: string
  readonly data?: Record<string, unknown>
}

interface Message {
  readonly id: string
  readonly role: string
  readonly status: string
  readonly channel: string
  readonly promptId?: string
  readonly error?: string
  readonly parts: Part[]
}

interface Item {
  readonly id: string
  readonly status: string
  readonly content: string
  readonly channel: string
}

/** Whatever the hub tells: which fields are there goes with the type. */
interface Told {
  readonly type: string
  readonly rev?: number
  readonly messages?: readonly Message[]
  readonly queue?: readonly Item[]
  readonly state?: Readonly<Record<string, unknown>>
  readonly events?: readonly Told[]
  readonly message?: Message
  readonly messageId?: string
  readonly part?: Part
  readonly partId?: string
  readonly offset?: number
  readonly text?: string
  readonly name?: string
  readonly value?: unknown
  readonly clientRequestId?: string
}

export interface TestClient {
  readonly messages: () => readonly Message[]
  /** The answer's words to a prompt. */
  readonly answerTo: (promptId: string) => string
  readonly queue: () => readonly Item[]
  readonly state: (name: string) => unknown
  readonly events: readonly Record<string, unknown>[]
  readonly cursor: () => number
  /** Words that came at a place where something is missing before them. */
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
  const messages = new Map<string, Message>(
    from?.messages().map((message) => [message.id, structuredClone(message)]),
  )
  const events: Record<string, unknown>[] = []
  const replies = new Map<string, (reply: Record<string, unknown>) => void>()
  const state = new Map<string, unknown>()
  let queue: readonly Item[] = []
  let cursor = options.cursor ?? from?.cursor() ?? 0
  let gaps = 0
  let asked = 0
  let first = false

  const apply = (event: Told): void => {
    cursor = Math.max(cursor, event.rev ?? 0)
    switch (event.type) {
      case "snapshot":
        first = true
        messages.clear()
        for (const message of event.messages ?? []) messages.set(message.id, message)
        queue = event.queue ?? []
        for (const [name, value] of Object.entries(event.state ?? {})) state.set(name, value)
        return
      case "changes":
        first = true
        return event.events?.forEach(apply)
      case "message":
        if (!event.message) return
        messages.set(event.message.id, {
          ...event.message,
          parts: messages.get(event.message.id)?.parts ?? [],
        })
        return
      case "part":
        return putPart(event)
      case "part.delta":
        return growPart(event)
      case "removed":
        messages.delete(event.messageId ?? "")
        return
      case "queue":
        queue = event.queue ?? []
        return
      case "state":
        state.set(event.name ?? "", event.value)
        return
      case "reply":
        replies.get(event.clientRequestId ?? "")?.({ ...event })
        return
      default:
        return
    }
  }

  const putPart = ({ messageId = "", part }: Told): void => {
    const parts = messages.get(messageId)?.parts ?? []
    const index = parts.findIndex(({ id }) => id === part?.id)
    if (part && index === -1) parts.push(part)
    else if (part) parts[index] = part
  }

  const growPart = ({ messageId = "", partId, offset = 0, text = "" }: Told): void => {
    const part = messages.get(messageId)?.parts.find(({ id }) => id === partId)
    const known = part?.text ?? ""
    if (!part || offset > known.length) gaps += 1
    else part.text = known.slice(0, offset) + text + known.slice(offset + text.length)
  }

  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/sessions/${session}/ws?role=client`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  socket.addEventListener("message", ({ data }) => {
    const event = JSON.parse(String(data)) as Told
    events.push({ ...event })
    apply(event)
  })
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve())
    socket.addEventListener("error", () => reject(new Error("the client was not let in")))
  })
  const resume = options.cursor !== undefined || from !== undefined
  socket.send(JSON.stringify({ type: "subscribe", ...(resume && { cursor }) }))
  await until(() => first, "first word of the session")

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
    events,
    cursor: () => cursor,
    gaps: () => gaps,
    ask: (message) => {
      asked += 1
      const clientRequestId = (message["clientRequestId"] as string | undefined) ?? `ask-${asked}`
      const answer = new Promise<Record<string, unknown>>((resolve) =>
        replies.set(clientRequestId, resolve),
      )
      socket.send(JSON.stringify({ ...message, clientRequestId }))
      return answer
    },
    until,
    isOpen: () => socket.readyState === WebSocket.OPEN,
    close: () => socket.close(),
  }
}

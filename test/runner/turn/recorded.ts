/** Recorded event streams of the real OpenCode, split by prompt, and what OpenCode's API would return at each moment. */
import { Glob } from "bun"
import { join } from "node:path"
import { z } from "zod"
import type {
  AgentEvent,
  AgentMessage,
  AgentPart,
  SessionStatus,
} from "../../../src/runner/opencode/events/events.ts"
import { parseAgentEvent } from "../../../src/runner/opencode/events/parse-event.ts"
import type { SessionSnapshot, StoredMessage } from "../../../src/runner/turn/turn.ts"

export interface Recorded {
  readonly at: number
  readonly event: Exclude<AgentEvent, { type: "connected" | "heartbeat" }>
}

/** One prompt of a recording: all events from its post to the next post. */
export interface RecordedPrompt {
  readonly name: string
  readonly isOld: boolean
  readonly sessionId: string
  readonly userMessageId: string
  readonly events: readonly Recorded[]
}

const line = z.looseObject({
  t: z.number(),
  src: z.string(),
  path: z.string().optional(),
  ev: z.unknown().optional(),
})

const folder = join(import.meta.dir, "../../fixtures/streams")

const readRecording = async (file: string): Promise<readonly RecordedPrompt[]> => {
  const lines = (await Bun.file(join(folder, file)).text())
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => line.parse(JSON.parse(text)))
  const posts = lines.flatMap(({ src, path, t }) => {
    const sessionId = /^\/session\/([^/]+)\/prompt_async$/.exec(path ?? "")?.[1]
    return src === "http" && sessionId !== undefined ? [{ sessionId, at: t }] : []
  })
  const events = lines.flatMap(({ src, t, ev }): Recorded[] => {
    const parsed = src === "global" ? parseAgentEvent(ev) : undefined
    if (parsed?.kind !== "event") return []
    const { event } = parsed
    return event.type === "connected" || event.type === "heartbeat" ? [] : [{ at: t, event }]
  })
  return posts.flatMap((post, index) => {
    // The response to the post is logged a moment after the first events that it caused.
    const start = events.findIndex(
      ({ at, event }) =>
        at >= post.at - 30 &&
        event.type === "message" &&
        event.agentSessionId === post.sessionId &&
        event.message.role === "user",
    )
    const next = posts[index + 1]?.at ?? Number.POSITIVE_INFINITY
    const first = events[start]?.event
    if (first?.type !== "message") return []
    return [
      {
        name: `${file.replace(".jsonl", "")}#${index + 1}`,
        isOld: file.startsWith("1.1."),
        sessionId: post.sessionId,
        userMessageId: first.message.id,
        events: events.slice(start).filter(({ at }) => at < next - 30),
      },
    ]
  })
}

const files = [...new Glob("*/*.jsonl").scanSync(folder)].toSorted()
export const recordings = (await Promise.all(files.map(readRecording))).flat()

/** OpenCode's stored messages, built from its events. Old versions store the text of a streaming part, new ones do not. */
export const createStore = (prompt: RecordedPrompt) => {
  const messages = new Map<string, AgentMessage>()
  const parts = new Map<string, AgentPart>()
  let status: SessionStatus = { type: "idle" }
  const stored = (isOwn: boolean): readonly StoredMessage[] =>
    [...messages.values()]
      .filter(({ agentSessionId: sessionId }) => (sessionId === prompt.sessionId) === isOwn)
      .map((message) => ({
        message,
        parts: [...parts.values()].filter(({ messageId }) => messageId === message.id),
      }))
  return {
    apply: ({ event }: Recorded): void => {
      if (event.type === "message") messages.set(event.message.id, event.message)
      if (event.type === "part") parts.set(event.part.id, event.part)
      if (event.type === "status" && event.agentSessionId === prompt.sessionId)
        status = event.status
    },
    snapshot: (): SessionSnapshot => ({ status, messages: stored(true), children: stored(false) }),
  }
}

export type Store = ReturnType<typeof createStore>

/** A fake OpenCode for tests of channels: it serves calls and emits the events of recordings. */
import type { AgentClient } from "../../../src/runner/opencode/client/client.ts"
import type { AgentEvent } from "../../../src/runner/opencode/events/events.ts"
import { createStore, type Recorded, type RecordedPrompt, type Store } from "../turn/recorded.ts"

/** A recording that is played with the ids that the runner chose. */
interface Playing {
  readonly sessionId: string
  readonly store: Store
  readonly events: Recorded[]
}

export interface FakeAgent {
  readonly client: AgentClient
  readonly prompts: { readonly sessionId: string; readonly messageId: string }[]
  /** The next event of one of the recordings being played; `choice` selects the recording. */
  readonly next: (choice: number) => AgentEvent | undefined
}

const unused = (name: string) => () => Promise.reject(new Error(`${name} is not used here`))

/** Each prompt plays the next of the `recordings`. */
export const createFakeAgent = (recordings: readonly RecordedPrompt[]): FakeAgent => {
  const playing = new Map<string, Playing>()
  const prompts: { sessionId: string; messageId: string }[] = []
  let sessions = 0
  const play = (sessionId: string, messageId: string) => {
    const recording = recordings[prompts.length % recordings.length]
    prompts.push({ sessionId, messageId })
    if (!recording) return
    const replace = (text: string) =>
      text
        .replaceAll(recording.sessionId, sessionId)
        .replaceAll(recording.userMessageId, messageId)
        // A recording may be played twice: the ids of the two conversations must differ.
        .replaceAll(/(msg|prt|que|per)_([0-9a-f]{12})/g, `$1_${prompts.length}_$2`)
    const events: Recorded[] = JSON.parse(replace(JSON.stringify(recording.events)))
    const own = { ...recording, sessionId, userMessageId: messageId, events }
    playing.set(sessionId, { sessionId, store: createStore(own), events })
  }
  const client: AgentClient = {
    health: async () => ({ version: "fake" }),
    checkConfig: async () => {},
    configuredModel: async () => undefined,
    sessionIds: async () => [],
    createSession: async () => `ses_fake${(sessions += 1)}`,
    sessionExists: async () => true,
    readSession: unused("readSession"),
    deleteSession: async () => {},
    statuses: async () =>
      new Map(
        [...playing].flatMap(([id, { store }]) => {
          const { status } = store.snapshot()
          return status.type === "idle" ? [] : [[id, status] as const]
        }),
      ),
    prompt: async (sessionId, { messageID }) => {
      if (!prompts.some(({ messageId }) => messageId === messageID)) play(sessionId, messageID)
    },
    abort: async () => {},
    command: unused("command"),
    summarize: unused("summarize"),
    messages: async (sessionId) => {
      const own = playing.get(sessionId)
      if (own) return own.store.snapshot().messages
      return [...playing.values()].flatMap(({ store }) =>
        store.snapshot().children.filter(({ message }) => message.agentSessionId === sessionId),
      )
    },
    snapshotsFrom: async () => [],
    project: async () => ({ id: "global", worktree: "/", isRepository: false }),
    deleteMessage: unused("deleteMessage"),
    revert: unused("revert"),
    unrevert: unused("unrevert"),
    diff: async () => [],
    questions: async () => [],
    permissions: async () => [],
    replyQuestion: async () => {},
    rejectQuestion: async () => {},
    replyPermission: async () => {},
    models: async () => [],
    failedMcpServers: async () => [],
    setAuth: unused("setAuth"),
    removeAuth: unused("removeAuth"),
    dispose: unused("dispose"),
    openEvents: unused("openEvents"),
    history: async () => [],
  }
  return {
    client,
    prompts,
    next: (choice) => {
      const left = [...playing.values()].filter(({ events }) => events.length > 0)
      const chosen = left[choice % Math.max(1, left.length)]
      const recorded = chosen?.events.shift()
      if (chosen && recorded) chosen.store.apply(recorded)
      return recorded?.event
    },
  }
}

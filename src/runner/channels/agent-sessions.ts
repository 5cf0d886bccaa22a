/** Which OpenCode session a channel talks in: the one the session agent names, the one it had, or a new one. */
import type { AgentClient } from "../opencode/client/client.ts"
import { type Clock, sleep } from "../../lib/clock.ts"

/** The channel map; it outlives the process. */
export interface ChannelStore {
  readonly sessionOf: (key: string) => string | undefined
  readonly all: () => readonly string[]
  /** Without a session the channel starts a fresh one with its next prompt. */
  readonly setSession: (key: string, sessionId: string | undefined) => void
}

export interface SessionChoice {
  readonly sessionId: string
  readonly isNew: boolean
}

const SETTLE_TRIES = 20
const SETTLE_MS = 250

export const chooseSession = async (
  client: AgentClient,
  clock: Clock,
  candidates: readonly (string | undefined)[],
  { isWhole }: { readonly isWhole: boolean },
): Promise<SessionChoice> => {
  for (const candidate of candidates) {
    if (candidate === undefined || !(await client.sessionExists(candidate))) continue
    await quieten(client, clock, candidate)
    if (!isWhole) await withdrawCompaction(client, candidate)
    return { sessionId: candidate, isNew: false }
  }
  return { sessionId: await client.createSession(), isNew: true }
}

/**
 * Nobody's turn may be left running in a session that is taken over: its answer would mix with ours. An idle
 * session is never aborted, since OpenCode would then take the abort for the next prompt's.
 */
const quieten = async (client: AgentClient, clock: Clock, sessionId: string): Promise<void> => {
  const isBusy = async () => (await client.statuses()).has(sessionId)
  if (!(await isBusy())) return
  await client.abort(sessionId)
  for (let tries = 0; tries < SETTLE_TRIES && (await isBusy()); tries += 1) {
    await sleep(clock, SETTLE_MS)
  }
}

/** An unfinished compaction is among the last messages: nothing is added to a conversation that was broken off. */
const LAST_MESSAGES = 10

/**
 * A compaction that was broken off is still asked for: OpenCode would do it again in the place of the next prompt,
 * and answer the prompt before it, or nothing.
 */
const withdrawCompaction = async (client: AgentClient, sessionId: string): Promise<void> => {
  const messages = await client.messages(sessionId, LAST_MESSAGES)
  const asked = messages.findLast(({ parts }) =>
    parts.some((part) => part.kind === "other" && part.type === "compaction"),
  )
  if (!asked) return
  const summaries = messages
    .map(({ message }) => message)
    .filter(({ parentId }) => parentId === asked.message.id)
  const isDone = summaries.some(({ completed, error }) => completed && error === undefined)
  if (isDone) return
  for (const { id } of [...summaries, asked.message]) await client.deleteMessage(sessionId, id)
}

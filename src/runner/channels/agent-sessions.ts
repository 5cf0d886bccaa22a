/** Chooses the agent session of a channel: the one the prompt names, the one the channel had, or a new one. */
import type { AgentClient } from "../opencode/client/client.ts"
import { type Clock, sleep } from "../../lib/clock.ts"

/** Maps each channel to its agent session; survives a restart of the runner. */
export interface ChannelStore {
  readonly agentSessionOf: (key: string) => string | undefined
  /** The agent sessions of all channels. */
  readonly all: () => readonly string[]
  /** Undefined removes the entry: the channel creates a new agent session with its next prompt. */
  readonly setAgentSession: (key: string, agentSessionId: string | undefined) => void
}

export interface AgentSessionChoice {
  readonly agentSessionId: string
  readonly isNew: boolean
}

const ABORT_POLLS = 20
const ABORT_POLL_MS = 250

export const chooseAgentSession = async (
  client: AgentClient,
  clock: Clock,
  candidates: readonly (string | undefined)[],
  { lastTurnFinishedCleanly }: { readonly lastTurnFinishedCleanly: boolean },
): Promise<AgentSessionChoice> => {
  for (const candidate of candidates) {
    if (candidate === undefined || !(await client.sessionExists(candidate))) continue
    await abortRunningTurn(client, clock, candidate)
    if (!lastTurnFinishedCleanly) await deleteInterruptedCompaction(client, candidate)
    return { agentSessionId: candidate, isNew: false }
  }
  return { agentSessionId: await client.createSession(), isNew: true }
}

/**
 * Stops a turn that still runs in the session, because its answer would mix with the answer to the next prompt. An
 * idle session is never aborted: OpenCode would apply that abort to the next prompt.
 */
const abortRunningTurn = async (
  client: AgentClient,
  clock: Clock,
  agentSessionId: string,
): Promise<void> => {
  const isBusy = async () => (await client.statuses()).has(agentSessionId)
  if (!(await isBusy())) return
  await client.abort(agentSessionId)
  for (let tries = 0; tries < ABORT_POLLS && (await isBusy()); tries += 1) {
    await sleep(clock, ABORT_POLL_MS)
  }
}

/** An unfinished compaction is among the last messages, since nothing is added after it. */
const LAST_MESSAGES = 10

/**
 * Deletes the request of an interrupted compaction. OpenCode would otherwise repeat the compaction instead of
 * running the next prompt, and answer the previous prompt or nothing.
 */
const deleteInterruptedCompaction = async (
  client: AgentClient,
  agentSessionId: string,
): Promise<void> => {
  const messages = await client.messages(agentSessionId, LAST_MESSAGES)
  const request = messages.findLast(({ parts }) =>
    parts.some((part) => part.kind === "other" && part.type === "compaction"),
  )
  if (!request) return
  const summaries = messages
    .map(({ message }) => message)
    .filter(({ parentId }) => parentId === request.message.id)
  const isDone = summaries.some(({ completed, error }) => completed && error === undefined)
  if (isDone) return
  for (const { id } of [...summaries, request.message])
    await client.deleteMessage(agentSessionId, id)
}

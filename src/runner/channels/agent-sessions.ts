/** Chooses the agent session of a channel: the one the prompt names, the one the channel had, or a new one. */
import type { AgentClient } from "../opencode/client/client.ts"
import { type Clock, sleep } from "../../lib/clock.ts"
import { type ForeignPrompt, readForeignPrompt } from "./foreign-prompt.ts"

/** Maps each channel to its agent session; survives a restart of the runner. */
export interface ChannelStore {
  readonly agentSessionOf: (key: string) => string | undefined
  /** The agent sessions of all channels. */
  readonly all: () => readonly string[]
  /** The key of the channel with this agent session. */
  readonly channelOf: (agentSessionId: string) => string | undefined
  /** Undefined removes the entry: the channel creates a new agent session with its next prompt. */
  readonly setAgentSession: (key: string, agentSessionId: string | undefined) => void
}

export type AgentSessionChoice =
  | { readonly agentSessionId: string; readonly isNew: boolean }
  /** Another client of OpenCode works in the session: the job must wait for that turn. */
  | { readonly agentSessionId: string; readonly foreign: ForeignPrompt }

export interface ChoiceOptions {
  readonly lastTurnFinishedCleanly: boolean
  /** True for a user message that a job of this runner has posted. */
  readonly isOwn: (userMessageId: string) => boolean
  readonly signal: AbortSignal
}

const ABORT_POLLS = 20
const POLL_MS = 250

export const chooseAgentSession = async (
  client: AgentClient,
  clock: Clock,
  candidates: readonly (string | undefined)[],
  { lastTurnFinishedCleanly, isOwn, signal }: ChoiceOptions,
): Promise<AgentSessionChoice> => {
  for (const candidate of candidates) {
    if (candidate === undefined || !(await client.sessionExists(candidate))) continue
    const isBusy = async () => (await client.statuses()).has(candidate)
    if (await isBusy()) {
      const foreign = await readForeignPrompt(client, candidate, isOwn)
      if (foreign) return { agentSessionId: candidate, foreign }
      // After a clean end, only another client can have made the session busy, for example with a compaction.
      if (lastTurnFinishedCleanly)
        while (!signal.aborted && (await isBusy())) await sleep(clock, POLL_MS)
      else await abortRunningTurn(client, clock, candidate)
    }
    if (!lastTurnFinishedCleanly) await deleteInterruptedCompaction(client, candidate)
    return { agentSessionId: candidate, isNew: false }
  }
  return { agentSessionId: await client.createSession(), isNew: true }
}

/**
 * Stops a turn of this runner that still runs in the session, because its answer would mix with the answer to the next prompt. An
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
    await sleep(clock, POLL_MS)
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

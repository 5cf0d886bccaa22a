/**
 * Makes OpenCode load its tools, provider code and agent prompts before the first user prompt. Only a real prompt
 * loads all of them, so this sends one to a model at a closed port, waits until the connection is refused, and deletes
 * the session.
 */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import type { AgentClient } from "../client/client.ts"
import { createIdMint } from "../client/ids.ts"
import { WARM_UP_MODEL } from "../config/compose-config.ts"

const POLL_MS = 50
const TIMEOUT_MS = 20_000

export interface WarmUpOptions {
  readonly client: AgentClient
  readonly clock: Clock
  readonly log: Log
}

/** Never rejects: a failed warm-up only makes the first prompt slower. */
export const warmUp = async (
  { client, clock, log }: WarmUpOptions,
  signal: AbortSignal,
): Promise<void> => {
  const mint = createIdMint(clock.now)
  const startedAt = clock.now()
  try {
    // OpenCode asks a model for a title of an untitled session; a title prevents that call.
    const agentSessionId = await client.createSession("warm-up")
    const part = { type: "text", id: mint("prt"), text: "warm-up" } as const
    await client.prompt(agentSessionId, {
      messageID: mint("msg"),
      model: WARM_UP_MODEL,
      parts: [part],
    })
    // Busy, then retry after the refused connection. Busy, then no status means that the prompt failed.
    let wasBusy = false
    while (!signal.aborted && clock.now() - startedAt < TIMEOUT_MS) {
      const status = (await client.statuses()).get(agentSessionId)
      if (status?.type === "retry" || (wasBusy && !status)) break
      wasBusy ||= status !== undefined
      await sleep(clock, POLL_MS, signal)
    }
    if (signal.aborted) return
    await client.abort(agentSessionId)
    await client.deleteSession(agentSessionId)
    log.info("agent.warmed-up", { ms: clock.now() - startedAt })
  } catch (error) {
    if (!signal.aborted) log.warn("agent.warm-up-failed", { error: describeError(error) })
  }
}

/**
 * Has OpenCode do once, before anyone waits for it, what it else does with the first prompt: load its tools, the
 * code that talks to models, the agents' prompts. Only a real prompt does all of it, so this is one, to a model that
 * is not there: it comes as far as the refused connection and is taken back.
 */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import type { AgentClient } from "../client/client.ts"
import { createIdMint } from "../client/ids.ts"
import { WARM_UP_MODEL } from "../config/compose-config.ts"

const POLL_MS = 50
const LIMIT_MS = 20_000

export interface WarmUpOptions {
  readonly client: AgentClient
  readonly clock: Clock
  readonly log: Log
}

/** Never fails: what is not warm is only slower. */
export const warmUp = async (
  { client, clock, log }: WarmUpOptions,
  signal: AbortSignal,
): Promise<void> => {
  const mint = createIdMint(clock.now)
  const begun = clock.now()
  try {
    // A session that has a title is not given one, which would be another model's work.
    const agentSessionId = await client.createSession("warm-up")
    const part = { type: "text", id: mint("prt"), text: "warm-up" } as const
    await client.prompt(agentSessionId, {
      messageID: mint("msg"),
      model: WARM_UP_MODEL,
      parts: [part],
    })
    // The first status comes with the prompt, the retry with the refused connection; without one it has failed.
    let wasBusy = false
    while (!signal.aborted && clock.now() - begun < LIMIT_MS) {
      const status = (await client.statuses()).get(agentSessionId)
      if (status?.type === "retry" || (wasBusy && !status)) break
      wasBusy ||= status !== undefined
      await sleep(clock, POLL_MS, signal)
    }
    if (signal.aborted) return
    await client.abort(agentSessionId)
    await client.deleteSession(agentSessionId)
    log.info("agent.warm", { ms: clock.now() - begun })
  } catch (error) {
    if (!signal.aborted) log.warn("agent.not-warmed", { error: describeError(error) })
  }
}

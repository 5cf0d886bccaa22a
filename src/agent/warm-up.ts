/** Has OpenCode do once, before anyone waits for it, what it else does with the first prompt. */
import type { Log } from "../log.ts"
import { describeError } from "../log.ts"
import type { AgentClient } from "./client.ts"
import { createIdMint } from "./ids.ts"

/** Never fails: what is not warm is only slower. */
export const warmUp = async (client: AgentClient, log: Log): Promise<void> => {
  const mint = createIdMint(Date.now)
  try {
    const sessionId = await client.createSession("warm-up")
    const part = { type: "text", id: mint("prt"), text: "warm-up" } as const
    await client.prompt(sessionId, { messageID: mint("msg"), noReply: true, parts: [part] })
    await client.toolIds()
    await client.deleteSession(sessionId)
  } catch (error) {
    log.debug("agent.not-warmed", { error: describeError(error) })
  }
}

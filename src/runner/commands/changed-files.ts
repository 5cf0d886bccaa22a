/** What the agent has changed, over all conversations of this session, file by file. */
import type { AgentClient, FileDiff } from "../opencode/client/client.ts"
import { type FilePatch, mergePatches, toPatch } from "./patch.ts"
import type { CommandContext } from "./command.ts"

export const changedFiles = async ({
  channels,
  agentSessionIds,
}: Pick<CommandContext, "channels" | "agentSessionIds">): Promise<readonly FilePatch[]> => {
  const agent = channels.agent()
  if (!agent) throw new Error("OpenCode is not ready")
  const diffs: FileDiff[] = []
  for (const agentSessionId of agentSessionIds()) {
    await channels.waitForSummary(agentSessionId)
    diffs.push(...(await diffOf(agent.client, agentSessionId)))
  }
  return mergePatches(diffs.map(toPatch))
}

/** Older OpenCode tells a session's whole change at once; since 1.2 it does so only prompt by prompt. */
const diffOf = async (
  client: AgentClient,
  agentSessionId: string,
): Promise<readonly FileDiff[]> => {
  if (!(await client.sessionExists(agentSessionId))) return []
  const whole = await client.diff(agentSessionId)
  if (whole.length > 0) return whole
  const { revertedTo } = await client.readSession(agentSessionId)
  const asked = (await client.messages(agentSessionId))
    .map(({ message }) => message)
    .filter(({ role }) => role === "user")
  const end = asked.findIndex(({ id }) => id === revertedTo)
  const standing = end === -1 ? asked : asked.slice(0, end)
  const diffs: FileDiff[] = []
  for (const { id } of standing) diffs.push(...(await client.diff(agentSessionId, id)))
  return diffs
}

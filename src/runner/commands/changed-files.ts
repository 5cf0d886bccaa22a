/** The files that were changed: by the agent in all conversations of this session, and in the workspace by any program. */
import type { AgentClient, FileDiff } from "../opencode/client/client.ts"
import { type FilePatch, mergePatches, toPatch } from "./patch.ts"
import type { CommandContext } from "./command.ts"

export const changedFiles = async ({
  channels,
  agentSessionIds,
  workspacePatches,
}: Pick<CommandContext, "channels" | "agentSessionIds" | "workspacePatches">): Promise<
  readonly FilePatch[]
> => {
  const { client } = await channels.waitForAgent()
  const diffs: FileDiff[] = []
  for (const agentSessionId of agentSessionIds()) {
    await channels.waitForSummary(agentSessionId)
    diffs.push(...(await diffOf(client, agentSessionId)))
  }
  // git wins: it compares with the base of the branch and knows what other programs have changed since.
  const ofWorkspace = await workspacePatches()
  const paths = new Set(ofWorkspace.map(({ path }) => path))
  const ofAgent = mergePatches(diffs.map(toPatch)).filter(({ path }) => !paths.has(path))
  return [...ofWorkspace, ...ofAgent]
}

/** OpenCode before 1.2 returns the diff of a whole session; since 1.2 it returns a diff only for each prompt. */
const diffOf = async (
  client: AgentClient,
  agentSessionId: string,
): Promise<readonly FileDiff[]> => {
  if (!(await client.sessionExists(agentSessionId))) return []
  const whole = await client.diff(agentSessionId)
  if (whole.length > 0) return whole
  const { revertedTo } = await client.readSession(agentSessionId)
  const prompts = (await client.messages(agentSessionId))
    .map(({ message }) => message)
    .filter(({ role }) => role === "user")
  const end = prompts.findIndex(({ id }) => id === revertedTo)
  const notReverted = end === -1 ? prompts : prompts.slice(0, end)
  const diffs: FileDiff[] = []
  for (const { id } of notReverted) diffs.push(...(await client.diff(agentSessionId, id)))
  return diffs
}

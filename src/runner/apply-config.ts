/** Applies a config of the session agent and reports the result, including the MCP servers that do not start. */
import { describeError, type Log } from "../lib/log.ts"
import type { Channels } from "./channels/channels.ts"
import type { Link } from "./link/link.ts"
import type { Agent } from "./opencode/agent.ts"
import type { RuntimeConfig } from "./opencode/config/compose-config.ts"
import { type Filled, fillModels, lacksModels } from "./opencode/config/fill-models.ts"

export interface ApplyConfigOptions {
  readonly agent: Pick<Agent, "configure">
  readonly channels: Pick<Channels, "agent">
  readonly send: Link["send"]
  readonly log: Log
}

/** Without MCP servers in the change, the report does not wait for them. */
export const createApplyConfig = ({ agent, channels, send, log }: ApplyConfigOptions) => {
  let last: Promise<Filled> | undefined
  /** One after the other: a change that waits for an endpoint's models must not be overtaken by a later one. */
  const fillInOrder = async (wanted: RuntimeConfig): Promise<Filled> => {
    const former = last
    const mine = (former ?? Promise.resolve()).then(() => fillModels(wanted))
    last = mine
    try {
      return await mine
    } finally {
      if (last === mine) last = undefined
    }
  }
  return async (wanted: RuntimeConfig, requestId: string | undefined): Promise<void> => {
    // Applied at once where no endpoint is asked: a prompt that follows must find the config.
    const isComplete = last === undefined && !lacksModels(wanted)
    const filled: Filled = isComplete ? { change: wanted } : await fillInOrder(wanted)
    const { change, problem } = filled
    const configured = await agent.configure(change)
    const problems = [configured.error, problem].filter((one) => one !== undefined)
    const applied = {
      ...configured,
      ...(problems.length > 0 && { error: problems.join(" ") }),
      ...(requestId !== undefined && { requestId }),
    }
    const client = channels.agent()?.client
    const hasServers = Object.keys(change.mcpServers ?? {}).length > 0
    if (!applied.success || !hasServers || !client)
      return send({ type: "opencode-config-applied", ...applied })
    const failed = await client.failedMcpServers().catch((error: unknown) => {
      log.warn("mcp.not-checked", { error: describeError(error) })
      return []
    })
    const error = `MCP servers do not start: ${failed.join(", ")}. Their tools are missing`
    send({ type: "opencode-config-applied", ...applied, ...(failed.length > 0 && { error }) })
  }
}

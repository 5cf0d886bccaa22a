/** `opencode-config`: a new config for the agent; `opencode-config-applied` reports later whether it was applied. */
import type { Command } from "./command.ts"

export const opencodeConfig: Command<"opencode-config"> = ({ configure }, { config, requestId }) =>
  configure(config, requestId)

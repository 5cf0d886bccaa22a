/** `opencode-config`: new settings for the agent; `opencode-config-applied` follows when they are in force, or are not. */
import type { Command } from "./command.ts"

export const opencodeConfig: Command<"opencode-config"> = ({ configure }, { config }) =>
  configure(config)

/** `opencode-config`: new settings for the agent; `opencode-config-applied` follows when they are in force, or are not. */
import type { Verb } from "./command.ts"

export const opencodeConfig: Verb<"opencode-config"> = ({ configure }, { config }) =>
  configure(config)

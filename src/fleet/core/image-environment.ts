/** The environment of a sandbox that has an image of its own: without what describes the machine of the fleet. */
import { variablesOfThisMachine } from "../../lib/machine-variables.ts"

/** The image has its own. */
export const variablesOfImage: ReadonlySet<string> = new Set([
  ...variablesOfThisMachine,
  "AGENT_USER",
  "OPENCODE_BIN",
  "OPENCODE_CONFIG_SOURCE",
  "SANDPIPER_SECRETS_FILE",
  "WHISPER_MODELS",
])

export const imageEnvironment = (
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !variablesOfImage.has(name)))

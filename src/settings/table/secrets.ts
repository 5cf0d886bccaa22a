/** Settings for the sources of secrets: the agent's, and the runner's own. */
import { endpointUrl, file, someText } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const secretSettings = {
  secretsToken: {
    env: "OP_SERVICE_ACCOUNT_TOKEN",
    reaches: ["child", "operator", "image"],
    doc: "service account of 1Password (`op`), for the agent's secrets",
    schema: someText.optional(),
    secret: true,
  },
  secretsFile: {
    env: "SANDPIPER_SECRETS_FILE",
    reaches: ["child", "operator"],
    setBy: "image",
    doc: "JSON file of names and values, mode 600: the agent's secrets without 1Password",
    schema: file.optional(),
  },
  runnerSecretsFile: {
    env: "RUNNER_SECRETS_FILE",
    reaches: [],
    setBy: "image",
    doc: "file of NAME=value lines, mode 600: the runner's own secrets, read at the start and after a restore",
    schema: file.optional(),
  },
  parallelApiKey: {
    env: "PARALLEL_API_KEY",
    reaches: ["child", "sandbox", "image"],
    doc: "key of Parallel's API; without it the agent has no parallel_* tools",
    schema: someText.optional(),
    secret: true,
  },
  parallelApiUrl: {
    env: "PARALLEL_API_URL",
    reaches: ["child", "sandbox", "image"],
    doc: "address of Parallel's API",
    schema: endpointUrl,
    fallback: () => "https://api.parallel.ai",
  },
} satisfies SettingGroup

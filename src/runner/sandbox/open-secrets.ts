/** Opens the sandbox's source of secrets: 1Password, a file, or none. */
import type { Clock } from "../../lib/clock.ts"
import { createOnePassword } from "./onepassword.ts"
import { createRunCommand } from "./run-command.ts"
import { createSecretsFile } from "./secrets-file.ts"
import { createSecrets, type Secrets } from "./secrets.ts"
import type { User } from "../host/users.ts"

export interface OpenSecretsOptions {
  /** The current token of 1Password's service account; with it, the file is not used. */
  readonly secretsToken: () => string | undefined
  readonly secretsFile: string | undefined
  readonly workDir: string
  readonly stateDir: string
  /** The environment of the agent's commands, without the runner's own variables. */
  readonly environment: Readonly<Record<string, string>>
  readonly owner: User | undefined
  readonly clock: Clock
}

export const openSecrets = (options: OpenSecretsOptions): Secrets | undefined => {
  const { secretsToken: token, secretsFile, workDir, environment, owner, clock } = options
  const path = environment["PATH"] ?? ""
  const provider = token()
    ? createOnePassword({ token: () => token() ?? "", path, home: options.stateDir })
    : secretsFile && createSecretsFile(secretsFile)
  if (!provider) return undefined
  const runCommand = createRunCommand({
    workDir,
    environment: { ...environment, ...(owner && { USER: owner.name, HOME: owner.home }) },
    owner,
    clock,
  })
  return createSecrets({ provider, workDir, runCommand, owner })
}

/** Secrets that the agent uses without seeing their values: in files, commands and forms, by reference. */
import type { CommandResult, RunCommand } from "./run-command.ts"
import { SecretsError } from "./secrets-error.ts"
import { createMask, SHORTEST_SECRET } from "./secret-mask.ts"
import { type Owner, readTemplate, writeSecretFile } from "./workspace-files.ts"

/** The part of a secret that the agent may see. */
export interface SecretReference {
  readonly reference: string
  readonly vault?: string
  readonly item?: string
  readonly field?: string
}

/** A source of secrets. */
export interface SecretsProvider {
  /** Matches references in a text; must have the `g` flag. */
  readonly references: RegExp
  /** Whether the whole text is one reference. */
  readonly isReference: (text: string) => boolean
  readonly list: (vault: string | undefined) => Promise<readonly SecretReference[]>
  /** The values of all references; rejects with a SecretsError that names the missing ones. */
  readonly resolve: (references: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

export interface Secrets {
  /** Whether the whole text is one reference. */
  readonly isReference: (text: string) => boolean
  /** The values of references, for files that the runner writes itself. Rejects if one is missing. */
  readonly resolve: (references: readonly string[]) => Promise<ReadonlyMap<string, string>>
  readonly list: (vault: string | undefined) => Promise<readonly SecretReference[]>
  readonly inject: (templatePath: string, outputPath: string) => Promise<{ readonly count: number }>
  readonly run: (request: RunRequest) => Promise<CommandResult>
  readonly fill: (selector: string, reference: string, timeoutMs?: number) => Promise<void>
}

export interface RunRequest {
  readonly command: string
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string | undefined
  readonly timeoutMs?: number | undefined
}

export interface SecretsOptions {
  readonly provider: SecretsProvider
  readonly workDir: string
  readonly runCommand: RunCommand
  /** The owner of written files, if it is not the runner's own user. */
  readonly owner: Owner | undefined
}

const RUN_MS = 60_000
const FILL_MS = 30_000

export const createSecrets = ({
  provider,
  workDir,
  runCommand,
  owner,
}: SecretsOptions): Secrets => {
  const resolve = async (references: readonly string[]): Promise<ReadonlyMap<string, string>> => {
    const invalid = references.filter((reference) => !provider.isReference(reference))
    if (invalid.length > 0) {
      throw new SecretsError("bad-input", `${invalid.join(", ")} is not a reference to a secret`)
    }
    const values = await provider.resolve([...new Set(references)])
    // Fails closed: an empty value must not be used as the secret.
    const missing = references.filter((reference) => !values.get(reference))
    if (missing.length > 0) {
      throw new SecretsError("not-found", `there is no secret ${missing.join(", ")}`)
    }
    return values
  }

  const runMasked = async (
    references: readonly string[],
    request: (values: ReadonlyMap<string, string>) => Parameters<RunCommand>[0],
  ): Promise<CommandResult> => {
    const values = await resolve(references)
    const short = references.filter(
      (reference) => (values.get(reference) ?? "").length < SHORTEST_SECRET,
    )
    if (short.length > 0) {
      const message = `${short.join(", ")} is shorter than ${SHORTEST_SECRET} characters and cannot be masked in the output`
      throw new SecretsError("bad-input", message)
    }
    return runCommand(request(values), () => createMask([...values.values()]))
  }

  return {
    isReference: provider.isReference,
    resolve,
    list: provider.list,
    inject: async (templatePath, outputPath) => {
      const template = await readTemplate(workDir, templatePath, owner)
      const references = template.match(provider.references) ?? []
      const values = await resolve(references)
      const text = template.replace(provider.references, (reference) => values.get(reference) ?? "")
      await writeSecretFile({ workDir }, outputPath, text, owner)
      return { count: values.size }
    },
    run: ({ command, env, cwd, timeoutMs = RUN_MS }) =>
      runMasked(Object.values(env), (values) => ({
        program: "/bin/sh",
        args: ["-c", command],
        cwd,
        timeoutMs,
        env: Object.fromEntries(
          Object.entries(env).map(([name, reference]) => [name, values.get(reference) ?? ""]),
        ),
      })),
    fill: async (selector, reference, timeoutMs = FILL_MS) => {
      const { exitCode, stderr, stdout } = await runMasked([reference], (values) => ({
        program: "agent-browser",
        args: ["batch", "--bail"],
        cwd: undefined,
        timeoutMs,
        env: {},
        input: JSON.stringify([["fill", selector, values.get(reference) ?? ""]]),
      }))
      if (exitCode === 0) return
      const lastLine = (stderr || stdout).trim().split("\n").at(-1) ?? ""
      throw new SecretsError(
        "unavailable",
        `the browser did not fill the field: ${lastLine.slice(0, 300)}`,
      )
    },
  }
}

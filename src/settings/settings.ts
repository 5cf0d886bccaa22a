/** Flags and environment -> one frozen Settings object. The only reader of the environment; the rows are in table.ts. */
import { resolve } from "node:path"
import type { z } from "zod"
import { hideCredentials } from "../lib/git-url.ts"
import { type Arguments, type CommandLine, type HelpWanted, parseCommandLine } from "./arguments.ts"
import type { CommandName } from "./commands.ts"
import type { repositoryList } from "./fields.ts"
import type { Context, Environment, Setting } from "./setting.ts"
import { SettingsError } from "./settings-error.ts"
import { settingRows, type SettingValues } from "./table.ts"

export interface Settings extends SettingValues {
  readonly command: CommandName
  /** The word after a command that requires one, such as `pre-snapshot`. */
  readonly operand: string | undefined
  /** The one of REPO_URL first, then those of REPOS_JSON. */
  readonly repositories: readonly (z.output<typeof repositoryList>[number] & {
    readonly createsBranch?: boolean
  })[]
  /** The settings that a flag or a variable sets; all others have their fallback. */
  readonly given: ReadonlySet<string>
  /** The whole environment, from which child processes get a selection; never printed. */
  readonly environment: Environment
  /** Every secret value, for the log's redaction. */
  readonly secrets: readonly string[]
}

/** What the command line asks for. Help and version need no settings and never fail on one. */
export type Invocation =
  | HelpWanted
  | { readonly want: "version" }
  | { readonly want: "command"; readonly settings: Settings; readonly args: Arguments }

export const readInvocation = (
  argv: readonly string[],
  env: Environment,
  cwd: string,
): Invocation => {
  const line = parseCommandLine(argv)
  if ("want" in line) return line
  const context = { command: line.command, env, cwd }
  return { want: "command", settings: readSettings(context, line), args: line.args }
}

const readSettings = (context: Context, { flags, operand }: CommandLine): Settings => {
  const values: Record<string, unknown> = {}
  const secrets: string[] = []
  const problems: string[] = []
  const givenKeys = new Set<string>()
  for (const [key, setting] of settingRows) {
    const given = (setting.flag && flags.get(setting.flag)) || context.env[setting.env]
    if (setting.readBy && !setting.readBy.includes(context.command)) {
      if (given && setting.secret) secrets.push(given)
      continue
    }
    if (given) givenKeys.add(key)
    const text = given || setting.fallback?.(context) || undefined
    if (text === undefined && setting.requiredBy?.includes(context.command)) {
      problems.push(`${nameOf(setting)} is missing: ${setting.doc}`)
      continue
    }
    if (text === undefined) continue
    const parsed = setting.schema.safeParse(text)
    if (!parsed.success) {
      problems.push(`${nameOf(setting)} ${parsed.error.issues[0]?.message ?? "is malformed"}`)
      continue
    }
    values[key] = parsed.data
    if (setting.secret) secrets.push(text)
  }
  if (problems.length > 0) throw new SettingsError(problems.join("\n"))
  const parsed = values as unknown as SettingValues
  const repositories = repositoriesOf(parsed)
  secrets.push(...repositories.flatMap(secretsOfRepository))
  return Object.freeze({
    ...parsed,
    operand,
    repositories,
    workDir: resolve(context.cwd, parsed.workDir),
    stateDir: resolve(context.cwd, parsed.stateDir),
    command: context.command,
    given: givenKeys,
    environment: Object.freeze({ ...context.env }),
    secrets: Object.freeze(secrets),
  })
}

const repositoriesOf = (values: SettingValues): Settings["repositories"] => {
  const { repoUrl: url, repoBranch: branch, repoRef: ref, repoDepth: depth } = values
  const createsBranch = values.repoBranchCreate === "1"
  const first =
    url === undefined ? [] : [{ url, branch, ref, depth, ...(createsBranch && { createsBranch }) }]
  return Object.freeze([...first, ...(values.moreRepositories ?? [])])
}

const secretsOfRepository = ({
  url,
  token,
}: Settings["repositories"][number]): readonly string[] => [
  ...(token === undefined ? [] : [token]),
  ...(URL.canParse(url) && new URL(url).password !== ""
    ? [decodeURIComponent(new URL(url).password)]
    : []),
]

const nameOf = ({ env, flag }: Setting): string => (flag ? `${env} (--${flag})` : env)

/** The settings as they may be printed: secrets are hidden, the environment is left out. */
export const printableSettings = (settings: Settings): Record<string, unknown> =>
  Object.fromEntries(
    settingRows.map(([key, { secret }]) => {
      const value = settings[key as keyof SettingValues]
      return [key, secret && value !== undefined ? "[redacted]" : printable(value)]
    }),
  )

/** An address may contain a password, which the settings table does not mark as a secret. */
const printable = (value: unknown): unknown =>
  typeof value === "string" ? hideCredentials(value, "[redacted]@") : value

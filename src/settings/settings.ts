/** Flags and environment -> one frozen Config. The only reader of the environment; what there is to set stands in knobs.ts. */
import { resolve } from "node:path"
import type { z } from "zod"
import { hideCredentials } from "../lib/git-url.ts"
import {
  type CommandName,
  commands,
  type Context,
  type Environment,
  type Setting,
  settingRows,
  type SettingValues,
} from "./table.ts"
import type { repositoryList } from "./fields.ts"

/** A value of the wrong form: `message` says which variable, what it must be and where to set it. Exit code 2. */
export class SettingsError extends Error {
  override readonly name = "ConfigError"
}

export interface Settings extends SettingValues {
  readonly command: CommandName
  /** The word after a command that takes one. */
  readonly operand: string | undefined
  /** REPO_URL's, then those of REPOS_JSON. */
  readonly repositories: readonly z.output<typeof repositoryList>[number][]
  /** The variables that a child process may be given a choice of; never printed. */
  readonly environment: Environment
  /** Every secret value, for the log's redaction. */
  readonly secrets: readonly string[]
}

/** What the command line asks for: help and version need no Config and never fail on one. */
export type Invocation =
  | { readonly want: "help" }
  | { readonly want: "version" }
  | { readonly want: "command"; readonly config: Settings; readonly words: Arguments }

/** What stands beside the settings on the command lines of `chat` and `workflow`. */
export interface Arguments {
  readonly text?: string
  readonly json: boolean
  readonly workflow?: {
    readonly file: string
    readonly variables: string | undefined
    readonly deny: boolean
  }
}

export const readInvocation = (
  argv: readonly string[],
  env: Environment,
  cwd: string,
): Invocation => {
  if (argv.includes("--help") || argv.includes("-h") || argv[0] === "help") return { want: "help" }
  if (argv.includes("--version") || argv.includes("-v")) return { want: "version" }
  const first = argv[0]
  if (first === undefined) return { want: "help" }
  const named = first.startsWith("-") ? undefined : first
  if (named !== undefined && !isCommand(named)) {
    throw new SettingsError(
      `unknown command "${named}": expected ${Object.keys(commands).join(", ")} (see sandpiper --help)`,
    )
  }
  const command = named ?? "run"
  const rest = named === undefined ? argv : argv.slice(1)
  const { words, flags: given } =
    command === "chat"
      ? readWords(rest)
      : command === "workflow"
        ? readWorkflowWords(rest)
        : { words: { json: false }, flags: rest }
  const { flags, operand } = readFlags(given, commands[command].operands ?? [])
  if (commands[command].operands !== undefined && operand === undefined) {
    throw new SettingsError(`${command} needs one of: ${commands[command].operands.join(", ")}`)
  }
  return { want: "command", config: readConfig({ command, env, cwd }, flags, operand), words }
}

const shortFlags: Readonly<Record<string, string>> = {
  "-m": "--model",
  "--session": "--session-id",
}

/** `chat` takes a text, `--json`, and short names for two of the flags; what is left are flags like any other's. */
const readWords = (
  argv: readonly string[],
): { readonly words: Arguments; readonly flags: readonly string[] } => {
  const texts: string[] = []
  const flags: string[] = []
  let json = false
  for (let index = 0; index < argv.length; index += 1) {
    const word = argv[index] ?? ""
    if (word === "--json") json = true
    else if (!word.startsWith("-")) texts.push(word)
    else {
      flags.push(shortFlags[word] ?? word)
      const value = argv[index + 1]
      if (!word.includes("=") && value !== undefined) flags.push(argv[(index += 1)] ?? "")
    }
  }
  return { words: { json, ...(texts.length > 0 && { text: texts.join(" ") }) }, flags }
}

/** `workflow` takes what to do and a file, and says no to an approval with `--deny`. */
const readWorkflowWords = (
  argv: readonly string[],
): { readonly words: Arguments; readonly flags: readonly string[] } => {
  const names: string[] = []
  const flags: string[] = []
  let variables: string | undefined
  let deny = false
  for (let index = 0; index < argv.length; index += 1) {
    const word = argv[index] ?? ""
    if (word === "--deny") deny = true
    else if (word === "--variables") variables = argv[(index += 1)] ?? ""
    else if (!word.startsWith("-") || word === "-") names.push(word)
    else {
      flags.push(word)
      const value = argv[index + 1]
      if (!word.includes("=") && value !== undefined) flags.push(argv[(index += 1)] ?? "")
    }
  }
  const [verb = "", file, ...more] = names
  const isVerb = commands.workflow.operands?.includes(verb) === true
  if (!isVerb || file === undefined || more.length > 0) {
    throw new SettingsError("workflow needs validate, run or resume, and then one FILE")
  }
  return { words: { json: false, workflow: { file, variables, deny } }, flags: [verb, ...flags] }
}

const isCommand = (name: string): name is CommandName => Object.hasOwn(commands, name)

const readFlags = (
  argv: readonly string[],
  operands: readonly string[],
): { readonly flags: ReadonlyMap<string, string>; readonly operand: string | undefined } => {
  const known = new Set(settingRows.flatMap(([, knob]) => knob.flag ?? []))
  const flags = new Map<string, string>()
  let operand: string | undefined
  for (let index = 0; index < argv.length; index += 1) {
    const word = argv[index] ?? ""
    if (operand === undefined && operands.includes(word)) {
      operand = word
      continue
    }
    const [, name, inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? []
    if (name === undefined || !known.has(name)) {
      throw new SettingsError(`unknown flag "${word}" (see sandpiper --help)`)
    }
    const value = inline ?? argv[(index += 1)]
    if (value === undefined) throw new SettingsError(`--${name} needs a value after it`)
    if (flags.has(name)) throw new SettingsError(`--${name} is given twice`)
    flags.set(name, value)
  }
  return { flags, operand }
}

const readConfig = (
  context: Context,
  flags: ReadonlyMap<string, string>,
  operand: string | undefined,
): Settings => {
  const values: Record<string, unknown> = {}
  const secrets: string[] = []
  const problems: string[] = []
  for (const [key, knob] of settingRows) {
    const given = (knob.flag && flags.get(knob.flag)) || context.env[knob.env]
    const text = given || knob.fallback?.(context) || undefined
    if (text === undefined && knob.requiredBy?.includes(context.command)) {
      problems.push(`${nameOf(knob)} is missing: ${knob.doc}`)
      continue
    }
    if (text === undefined) continue
    const parsed = knob.schema.safeParse(text)
    if (!parsed.success) {
      problems.push(`${nameOf(knob)} ${parsed.error.issues[0]?.message ?? "is malformed"}`)
      continue
    }
    values[key] = parsed.data
    if (knob.secret) secrets.push(text)
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
    environment: Object.freeze({ ...context.env }),
    secrets: Object.freeze(secrets),
  })
}

const repositoriesOf = (values: SettingValues): Settings["repositories"] => {
  const { repoUrl: url, repoBranch: branch, repoRef: ref, repoDepth: depth } = values
  const first = url === undefined ? [] : [{ url, branch, ref, depth }]
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

const nameOf = (knob: Setting): string => (knob.flag ? `${knob.env} (--${knob.flag})` : knob.env)

/** The Config as it may be printed: secrets hidden, the environment left out. */
export const printableSettings = (config: Settings): Record<string, unknown> =>
  Object.fromEntries(
    settingRows.map(([key, knob]) => {
      const value = config[key as keyof SettingValues]
      return [key, knob.secret && value !== undefined ? "[redacted]" : shown(value)]
    }),
  )

/** An address may carry a password; the log takes it out of a line as well. */
const shown = (value: unknown): unknown =>
  typeof value === "string" ? hideCredentials(value, "[redacted]@") : value

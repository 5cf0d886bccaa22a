/** The command line, parsed with node:util's parseArgs: command, flags, arguments, and one error sentence per mistake. */
import { parseArgs } from "node:util"
import { type CommandName, commands, type CommandSyntax, isCommand } from "./commands.ts"
import { SettingsError } from "./settings-error.ts"
import { settingRows } from "./table.ts"

/** The arguments of a command beside its settings. */
export interface Arguments {
  /** The prompt of `chat`, the session of `fleet show`. */
  readonly text?: string
  /** `fleet sweep --dry-run`: report only. */
  readonly dryRun?: boolean
  /** `fleet base-snapshot --again`: make one although there is one. */
  readonly again?: boolean
  readonly json: boolean
  readonly key?: {
    readonly prefix: string | undefined
    readonly owner: string | undefined
    readonly scope: string | undefined
    readonly name: string | undefined
    readonly days: string | undefined
  }
  /** The words after the operand, and the flags that only this command takes. */
  readonly words?: readonly string[]
  readonly flags?: ReadonlyMap<string, string>
  readonly follow?: boolean
  /** `up --new`: a session of its own beside the one of this directory. */
  readonly fresh?: boolean
  /** `up --chat`: a chat in the terminal, also where there is a browser. */
  readonly chat?: boolean
  /** `up --open`: open the page in the browser. */
  readonly open?: boolean
  /** The directory that `forget` deletes the state of. */
  readonly directory?: string
  /** The paths of `files`, its switches, and the texts of `files edit`. */
  readonly files?: {
    readonly paths: readonly string[]
    readonly switches: ReadonlySet<string>
    readonly oldText: string | undefined
    readonly newText: string | undefined
  }
  readonly workflow?: {
    readonly file: string
    readonly variables: string | undefined
    readonly deny: boolean
  }
}

export interface CommandLine {
  readonly command: CommandName
  /** The word after a command that requires one, such as `pre-snapshot`. */
  readonly operand: string | undefined
  /** Flags of settings, by name. */
  readonly flags: ReadonlyMap<string, string>
  readonly args: Arguments
}

export interface HelpWanted {
  readonly want: "help"
  /** The command whose help is wanted, or `settings` for the list of all settings; the first page if absent. */
  readonly topic?: CommandName | "settings"
}

const SEE_HELP = "(see sandpiper --help)"

export const parseCommandLine = (
  argv: readonly string[],
): CommandLine | HelpWanted | { readonly want: "version" } => {
  const [first] = argv
  const end = argv.indexOf("--")
  const given = end === -1 ? argv : argv.slice(0, end)
  if (first === undefined) return { want: "help" }
  if (first === "help") {
    const [, topic = ""] = argv
    return { want: "help", ...((isCommand(topic) || topic === "settings") && { topic }) }
  }
  if (given.includes("--help") || given.includes("-h"))
    return { want: "help", ...(isCommand(first) && { topic: first }) }
  if (given.includes("--version") || given.includes("-v")) return { want: "version" }
  if (first.startsWith("-")) return parseArguments("run", argv)
  if (isCommand(first)) return parseArguments(first, argv.slice(1))
  const expected = Object.entries(commands)
    .flatMap(([name, { group }]) => (group === "internal" ? [] : [name]))
    .join(", ")
  throw new SettingsError(`unknown command "${first}": expected ${expected} ${SEE_HELP}`)
}

const parseArguments = (command: CommandName, argv: readonly string[]): CommandLine => {
  const syntax = commands[command]
  const { values, switches, positionals } = readTokens(argv, syntax)
  const operand = syntax.operands && takeOperand(command, syntax.operands, positionals)
  const rest = operand === undefined ? positionals : positionals.slice(1)
  const known = new Set(settingFlags())
  const flags = new Map([...values].filter(([name]) => known.has(name)))
  const line = { command, operand, flags }
  switch (syntax.argument) {
    case "text":
      return {
        ...line,
        args: {
          json: switches.has("json"),
          ...(switches.has("dry-run") && { dryRun: true }),
          ...(switches.has("again") && { again: true }),
          ...(rest.length > 0 && { text: rest.join(" ") }),
        },
      }
    case "words":
      return {
        ...line,
        args: {
          json: switches.has("json"),
          words: rest,
          flags: values,
          ...(switches.has("follow") && { follow: true }),
        },
      }
    case "file": {
      const [file, ...more] = rest
      if (file === undefined) throw new SettingsError(`${command} ${operand} needs a FILE`)
      rejectExtra(more)
      const workflow = { file, variables: values.get("variables"), deny: switches.has("deny") }
      return { ...line, args: { json: false, workflow } }
    }
    case "key": {
      const [prefix, ...more] = rest
      rejectExtra(operand === "revoke" ? more : rest)
      const [owner, scope, name, days] = ["owner", "scope", "name", "days"].map((flag) =>
        values.get(flag),
      )
      return { ...line, args: { json: false, key: { prefix, owner, scope, name, days } } }
    }
    case "paths": {
      const [oldText, newText] = ["old", "new"].map((flag) => values.get(flag))
      const files = { paths: rest, switches, oldText, newText }
      return { ...line, args: { json: switches.has("json"), files } }
    }
    case "directory": {
      const [directory, ...more] = rest
      if (directory === undefined) throw new SettingsError(`${command} needs a DIR`)
      rejectExtra(more)
      return { ...line, args: { json: false, directory } }
    }
    case "work-dir": {
      const [directory, ...more] = rest
      rejectExtra(more)
      if (directory !== undefined && flags.has("work-dir"))
        throw new SettingsError(`DIR and --work-dir are the same: give one of them ${SEE_HELP}`)
      return {
        ...line,
        flags: directory === undefined ? flags : new Map([...flags, ["work-dir", directory]]),
        args: {
          json: false,
          ...(switches.has("new") && { fresh: true }),
          ...(switches.has("chat") && { chat: true }),
          ...(switches.has("open") && { open: true }),
        },
      }
    }
    default:
      rejectExtra(rest)
      return { ...line, args: { json: false } }
  }
}

const takeOperand = (
  command: CommandName,
  operands: readonly string[],
  [word]: readonly string[],
): string => {
  if (word !== undefined && operands.includes(word)) return word
  const problem = word === undefined ? "" : `, not "${word}"`
  throw new SettingsError(`${command} needs one of: ${operands.join(", ")}${problem}`)
}

const rejectExtra = ([word]: readonly string[]): void => {
  if (word !== undefined) throw new SettingsError(`unexpected argument "${word}" ${SEE_HELP}`)
}

const settingFlags = (): readonly string[] => settingRows.flatMap(([, { flag }]) => flag ?? [])

interface Tokens {
  /** Flags with values, aliases replaced by what they stand for. */
  readonly values: ReadonlyMap<string, string>
  readonly switches: ReadonlySet<string>
  readonly positionals: readonly string[]
}

const readTokens = (argv: readonly string[], syntax: CommandSyntax): Tokens => {
  const aliases = syntax.aliases ?? {}
  const withValue = [...settingFlags(), ...(syntax.flags ?? []), ...Object.keys(aliases)]
  const isSwitch = (name: string) => syntax.switches?.includes(name) === true
  const { tokens } = parseArgs({
    args: [...argv],
    options: {
      ...Object.fromEntries(withValue.map((name) => [name, optionNamed(name)])),
      ...Object.fromEntries((syntax.switches ?? []).map((name) => [name, { type: "boolean" }])),
    },
    // Not strict: the errors below say what to do.
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const values = new Map<string, string>()
  const switches = new Set<string>()
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value)
    if (token.kind !== "option") continue
    const { rawName, value, inlineValue } = token
    const name = aliases[token.name] ?? token.name
    if (isSwitch(name)) {
      if (inlineValue) throw new SettingsError(`${rawName} takes no value`)
      switches.add(name)
      continue
    }
    if (!withValue.includes(token.name)) {
      throw new SettingsError(`unknown flag "${rawName}" ${SEE_HELP}`)
    }
    if (value === undefined || (!inlineValue && /^-./.test(value))) {
      throw new SettingsError(`${rawName} needs a value after it`)
    }
    if (values.has(name)) throw new SettingsError(`--${name} is given twice`)
    values.set(name, value)
  }
  return { values, switches, positionals }
}

const optionNamed = (name: string): { readonly type: "string"; readonly short?: string } =>
  name.length === 1 ? { type: "string", short: name } : { type: "string" }

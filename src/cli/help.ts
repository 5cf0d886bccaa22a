/** The pages of the help: the first one, one for each command, and the list of all settings. */
import { type CommandGroup, type CommandName, commands } from "../settings/commands.ts"
import type { Setting, SettingGroup } from "../settings/setting.ts"
import { settingGroups, settingRows } from "../settings/table.ts"

export const helpPage = (topic: CommandName | "settings" | undefined, version: string): string => {
  if (topic === undefined) return firstPage(version)
  return topic === "settings" ? settingsPage() : commandHelp(topic)
}

const firstPage = (
  version: string,
): string => `sandpiper ${version} - runs coding agents in sandboxes, reliably

  sandpiper up                  start here: an agent for this directory and a link to its page
  sandpiper COMMAND --help      the flags of one command
  sandpiper help settings       every setting: environment variables, their flags and defaults
${groups.map(describeCommands).join("")}
Provider keys (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, ...) are read from the environment. Without one,
\`up\` uses a scripted demo model that needs no network.

Examples
  ANTHROPIC_API_KEY=... sandpiper up ~/my-project --open
  sandpiper chat "what changed since yesterday?"
  DO_WS_URL=wss://agent.example/ws RUNNER_TOKEN=... SESSION_ID=s1 JWT_SECRET=... sandpiper run

Exit codes: 0 success, 1 failure, 2 bad flag or setting, 3 refused by the session agent, 130 the turn was cancelled.
`

const groups = ["On your machine", "For a platform", "In a sandbox"] as const

const describeCommands = (title: CommandGroup): string => {
  const rows = Object.entries(commands).flatMap(([name, { group, doc }]) =>
    group === title ? [`  ${name.padEnd(10)} ${doc}`] : [],
  )
  return ["", title, ...rows, ""].join("\n")
}

const settingsPage =
  (): string => `Settings: environment variables. Some have a flag too, which takes precedence.
${Object.entries<SettingGroup>(settingGroups).map(describeGroup).join("\n")}
`

/** The help of one command: its usage, its own flags, and the flags of settings with their defaults. */
const commandHelp = (name: CommandName): string => {
  const {
    doc,
    operands,
    argument,
    switches = [],
    flags = [],
    aliases = {},
    usage,
    settings,
  } = commands[name]
  const syntax = [
    name,
    ...(operands ? [operands.join("|")] : []),
    ...switches.map((flag) => `[--${flag}]`),
    ...flags.map((flag) => `[--${flag} VALUE]`),
    ...(argument === undefined ? [] : [argumentNames[argument]]),
    ...(settings.length > 0 ? ["[flags]"] : []),
  ].join(" ")
  const short = Object.entries(aliases).map(
    ([alias, flag]) => `  ${alias.length === 1 ? "-" : "--"}${alias} is --${flag}`,
  )
  const rows = settingRows
    .flatMap(([, setting]) => (settings.includes(setting.flag ?? "") ? [setting] : []))
    .map(({ flag = "", env, doc: text, fallback }) => {
      const value = defaultOf(fallback, name)
      return `  --${flag.padEnd(14)} ${text} (${env}${value === "" ? "" : `, default ${value}`})`
    })
  return [
    `sandpiper ${name}: ${doc}`,
    "",
    "Usage",
    ...(usage ?? [syntax]).map((line) => `  sandpiper ${line}`),
    ...(short.length > 0 ? ["", ...short] : []),
    ...(rows.length > 0 ? ["", "Flags", ...rows] : []),
    "",
    "`sandpiper help settings` lists all settings, also those without a flag.",
    "",
  ].join("\n")
}

const argumentNames = {
  file: "FILE",
  directory: "DIR",
  "work-dir": "[DIR]",
  key: "[PREFIX]",
  text: '["text"]',
  paths: "PATH...",
  words: "[NAME ...]",
} as const

const defaultOf = (fallback: Setting["fallback"], command: CommandName): string =>
  fallback?.({ command, env: { HOME: "~" }, cwd: "the current directory" }) ?? ""

const describeGroup = ([title, group]: readonly [string, SettingGroup]): string => {
  const rows = Object.values(group).map(({ env, flag, doc, fallback }) => {
    const option = flag ? `--${flag}` : ""
    const value = defaultOf(fallback, "run")
    return `  ${env.padEnd(26)} ${option.padEnd(16)} ${doc}${value === "" ? "" : ` (default ${value})`}`
  })
  return ["", title, ...rows].join("\n")
}

/** The text of `sandpiper --help`: usage, commands, every setting by group, examples, exit codes. */
import { type CommandName, commands } from "../settings/commands.ts"
import type { Setting, SettingGroup } from "../settings/setting.ts"
import { settingGroups, settingRows } from "../settings/table.ts"

export const helpText = (
  version: string,
): string => `sandpiper ${version} - the runner daemon of an AI coding sandbox

Usage
  sandpiper up [DIR]                 start here: a working agent and its page, no setup needed
  sandpiper up --open                the same, and open the page in the browser
  sandpiper up --chat                the same, with a chat in this terminal
  sandpiper link                     another login link for the page
  sandpiper serve                    a session agent with one sandbox per session, on this machine
  sandpiper fleet ls|show|sweep|forget [SESSION] [--json]
  sandpiper run [flags]              inside a sandbox, linked to a session agent
  sandpiper --do-url URL ...         the same as run
  sandpiper chat [--session S] [-m MODEL] [--json] "text"
  sandpiper up --new                 another session in the same directory
  sandpiper sessions
  sandpiper key create --owner user:NAME --scope "sessions:write" [--name TEXT] [--days N]
  sandpiper key list [--owner O] | revoke PREFIX [--owner O] | rotate
  sandpiper forget DIR
  sandpiper files ls [PATH] | cat PATH | put LOCAL PATH | get PATH LOCAL | mv FROM TO [--overwrite]
  sandpiper files rm PATH [--recursive] | edit PATH --old TEXT --new TEXT [--all] | save
  sandpiper services start web -- npm run dev      in a sandbox; also list, logs, stop, restart, expose
  sandpiper env apply FILE | scrub                 in a sandbox
  sandpiper workflow validate|run|resume FILE [--variables JSON] [--deny]

Commands
${Object.entries(commands)
  .map(([name, { doc }]) => `  ${name.padEnd(15)} ${doc}`)
  .join("\n")}

Settings: environment variables. Some have a flag too, which takes precedence.
${Object.entries<SettingGroup>(settingGroups).map(describeGroup).join("\n")}

Provider keys (ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY, ...) are read from the environment. Without
one, \`up\` uses a scripted demo model that needs no network.

Examples
  sandpiper up --work-dir ~/my-project
  sandpiper chat "what changed since yesterday?"
  DO_WS_URL=wss://agent.example/ws RUNNER_TOKEN=... SESSION_ID=s1 JWT_SECRET=... sandpiper run

Exit codes: 0 success, 1 failure, 2 bad flag or setting, 3 refused by the session agent,
130 the turn was cancelled.
sandpiper COMMAND --help shows the flags of one command.
`

/** The help of one command: its usage, its own flags, and the flags of settings with their defaults. */
export const commandHelp = (name: CommandName): string => {
  const { doc, operands, argument, switches = [], flags = [], aliases = {} } = commands[name]
  const usage = [
    "sandpiper",
    name,
    ...(operands ? [operands.join("|")] : []),
    ...switches.map((flag) => `[--${flag}]`),
    ...flags.map((flag) => `[--${flag} VALUE]`),
    ...(argument === undefined ? [] : [argumentNames[argument]]),
    "[flags]",
  ].join(" ")
  const short = Object.entries(aliases).map(
    ([alias, flag]) => `  ${alias.length === 1 ? "-" : "--"}${alias} is --${flag}`,
  )
  const rows = settingRows
    .flatMap(([, setting]) => (setting.flag ? [setting] : []))
    .map(({ flag = "", env, doc: text, fallback }) => {
      const value = defaultOf(fallback, name)
      return `  --${flag.padEnd(14)} ${text} (${env}${value === "" ? "" : `, default ${value}`})`
    })
  return [
    `sandpiper ${name}: ${doc}`,
    "",
    "Usage",
    `  ${usage}`,
    ...(short.length > 0 ? ["", ...short] : []),
    "",
    "Flags",
    ...rows,
    "",
    "`sandpiper --help` lists the settings that have no flag.",
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

/** What `--help` prints: the commands, every setting, and what to type first. */
import { commands, settingRows } from "../settings/table.ts"

export const helpText = (version: string): string => {
  const rows = settingRows.map(([, knob]) => {
    const name = knob.flag ? `--${knob.flag}` : ""
    return `  ${knob.env.padEnd(26)} ${name.padEnd(16)} ${knob.doc}`
  })
  return `sandpiper ${version} - the runner daemon of an AI coding sandbox

Usage
  sandpiper up                       try it: a working agent in this terminal, nothing else needed
  sandpiper run [flags]              inside a sandbox, linked to a session agent
  sandpiper --do-url URL ...         the same as run
  sandpiper chat [--session S] [-m MODEL] [--json] "text"
  sandpiper sessions
  sandpiper workflow validate|run|resume FILE [--variables JSON] [--deny]

Commands
${Object.entries(commands)
  .map(([name, { doc }]) => `  ${name.padEnd(15)} ${doc}`)
  .join("\n")}

Every setting is a variable; some have a flag too, which wins.
${rows.join("\n")}

Provider keys (ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY, ...) are read from the environment; without
any, \`up\` uses a scripted demo model that needs no network.

Examples
  sandpiper up --work-dir ~/my-project
  sandpiper chat "what changed since yesterday?"
  DO_WS_URL=wss://agent.example/ws RUNNER_TOKEN=... SESSION_ID=s1 JWT_SECRET=... sandpiper run

Exit codes: 0 ended as asked, 1 failed, 2 bad flag or setting, 3 refused by the session agent,
130 the turn was stopped.
`
}

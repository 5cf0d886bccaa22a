/**
 * Parses the command line, runs one command, exits: the only process.exit. Commands are imported on demand, because
 * loading all of them would add tens of milliseconds to every start.
 */
import type { Command } from "./cli/command.ts"
import { unsupportedSystem } from "./cli/supported-system.ts"
import { createLog, describeError, type Log } from "./lib/log.ts"
import { commit, version } from "./lib/version.ts"
import { visibleText } from "./lib/visible-text.ts"
import type { CommandName } from "./settings/commands.ts"
import { withSecrets, withSecretsFile } from "./settings/secret-sources.ts"
import { printableSettings, readInvocation, type Settings } from "./settings/settings.ts"
import { SettingsError } from "./settings/settings-error.ts"

const commands: Readonly<Record<CommandName, () => Promise<Command>>> = {
  run: async () => (await import("./cli/run.ts")).run,
  up: async () => (await import("./cli/up.ts")).up,
  serve: async () => (await import("./cli/serve.ts")).serve,
  fleet: async () => (await import("./cli/fleet.ts")).fleet,
  chat: async () => (await import("./cli/chat.ts")).chat,
  link: async () => (await import("./cli/link.ts")).link,
  sessions: async () => (await import("./cli/sessions.ts")).sessions,
  key: async () => (await import("./cli/key.ts")).key,
  forget: async () => (await import("./cli/forget.ts")).forget,
  doctor: async () => (await import("./cli/doctor.ts")).doctor,
  hook: async () => (await import("./cli/hook.ts")).hook,
  workflow: async () => (await import("./cli/workflow.ts")).workflow,
  services: async () => (await import("./cli/services.ts")).services,
  env: async () => (await import("./cli/env.ts")).env,
  actions: async () => (await import("./cli/actions.ts")).actions,
  "git-credential": async () => (await import("./cli/git-credential.ts")).gitCredential,
  "key-broker": async () => (await import("./cli/key-broker.ts")).keyBroker,
  "egress-proxy": async () => (await import("./cli/egress-proxy.ts")).egressProxy,
  "end-orphans": async () => (await import("./cli/end-orphans.ts")).endOrphans,
  files: async () => (await import("./cli/files.ts")).files,
  "sandbox-server": async () => (await import("./cli/sandbox-server.ts")).sandboxServer,
  "read-pdf": async () => (await import("./cli/read-pdf.ts")).readPdf,
}

const main = async (): Promise<number> => {
  const env = withSecrets(process.env)
  const read = () => readInvocation(process.argv.slice(2), withSecretsFile(env), process.cwd())
  const invocation = read()
  if (invocation.want === "version") return print(`sandpiper ${version} (${commit})\n`)
  if (invocation.want === "help") {
    const { helpPage } = await import("./cli/help.ts")
    return print(helpPage(invocation.topic, version))
  }
  const unsupported = unsupportedSystem(process.platform, process.arch)
  if (unsupported !== undefined) throw new SettingsError(unsupported)
  const { settings, args } = invocation
  const log = logFor(settings)
  log.debug("settings", printableSettings(settings))
  const command = await commands[settings.command]()
  return command({
    settings,
    args,
    log,
    rereadSettings: () => {
      const again = read()
      return again.want === "command" ? again.settings : settings
    },
  })
}

const logFor = ({ logLevel, logFormat, secrets }: Settings): Log => {
  const isTerminal = process.stderr.isTTY === true
  return createLog({
    level: logLevel,
    format: logFormat === "auto" ? (isTerminal ? "pretty" : "json") : logFormat,
    secrets,
    write: (line) => process.stderr.write(`${line}\n`),
    now: Date.now,
  })
}

const print = (text: string): number => {
  process.stdout.write(text)
  return 0
}

// The reader of the output has ended, as in `sandpiper chat --json | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0)
  throw error
})

try {
  process.exit(await main())
} catch (error) {
  // The message may quote what a sandbox has answered.
  process.stderr.write(`sandpiper: ${visibleText(describeError(error))}\n`)
  process.exit(error instanceof SettingsError ? 2 : 1)
}

/**
 * Commands and flags -> Config -> run. Signals come in here, and only here does the process end. Each command loads its
 * own parts: what the others need would cost every start tens of milliseconds.
 */
import {
  type Settings,
  SettingsError,
  printableSettings,
  readInvocation,
  type Arguments,
} from "./settings/settings.ts"
import { helpText } from "./cli/help.ts"
import { withSecrets, withSecretsFile } from "./settings/secret-sources.ts"
import type { Ending } from "./runner/daemon.ts"
import { descendantsOf, endAll, listProcesses } from "./runner/host/processes.ts"
import { startReaper } from "./runner/host/reaper.ts"
import { type HubAddress, readAddress } from "./hub/hosts/bun/address.ts"
import { systemClock, within } from "./lib/clock.ts"
import { createLog, describeError, type Log } from "./lib/log.ts"
import { commit, version } from "./lib/version.ts"

const main = async (): Promise<number> => {
  const env = withSecrets(process.env)
  const read = () => readInvocation(process.argv.slice(2), withSecretsFile(env), process.cwd())
  const invocation = read()
  if (invocation.want === "help") return print(helpText(version))
  if (invocation.want === "version") return print(`sandpiper ${version} (${commit})\n`)
  const { config, words } = invocation
  const log = logFor(config)
  log.debug("config", printableSettings(config))
  switch (config.command) {
    case "run":
      return run(config, log, () => {
        const fresh = read()
        return fresh.want === "command" ? fresh.config : config
      })
    case "up":
      return up(config, log)
    case "chat":
      return chat(config, words)
    case "sessions":
      return sessions(config)
    case "doctor":
      return doctor(config)
    case "hook":
      return hook(config)
    case "workflow":
      return workflow(config, words)
    case "git-credential":
      return gitCredential(config)
    case "read-pdf":
      return readPdf()
  }
}

/** Below the ten seconds after which a platform ends the process itself, and with it whatever is half done. */
const STOP_LIMIT_MS = 9500

const run = async (config: Settings, log: Log, readAgain: () => Settings): Promise<number> => {
  // Before anything else: as PID 1 a signal without a handler is lost.
  const asked = signalled()
  const reaper = startReaper({ clock: systemClock, log })
  const link = { url: config.doUrl ?? "", token: config.runnerToken ?? "" }
  const { createDaemon } = await import("./runner/daemon.ts")
  const daemon = createDaemon({ config, link, version, log, self: self(), readAgain })
  await daemon.start()
  const ending = await Promise.race([daemon.done, asked, inputEnded(config)])
  const inOrder = await within(systemClock, STOP_LIMIT_MS, daemon.stop(ending))
  reaper.stop()
  // Whatever the agent and the services have left running would otherwise outlive the sandbox's runner.
  await endAll(() => descendantsOf(process.pid, listProcesses()), systemClock)
  log.info("daemon.ended", { ...ending, inOrder })
  return ending.code
}

/** How to start this program again: the binary alone, or the runtime with its source. */
const self = (): readonly string[] =>
  Bun.main.startsWith("/$bunfs/") ? [process.execPath] : [process.execPath, Bun.main]

const doctor = async (config: Settings): Promise<number> => {
  const { examine } = await import("./cli/doctor.ts")
  const { lines, healthy } = await examine(config)
  print(`${lines.join("\n")}\n`)
  return healthy ? 0 : 1
}

const gitCredential = async (config: Settings): Promise<number> => {
  const { answerGit } = await import("./runner/host/credential-helper.ts")
  return print(await answerGit(config, await Bun.stdin.text()))
}

const readPdf = async (): Promise<number> => {
  const { textOfPdf } = await import("./runner/prompt/pdf-text.ts")
  return print(JSON.stringify(await textOfPdf(new Uint8Array(await Bun.stdin.arrayBuffer()))))
}

const HOOK_LIMIT_MS = 50_000

const hook = async (config: Settings): Promise<number> => {
  const { askControl, findControl } = await import("./runner/host/control-socket.ts")
  const control = await findControl(config.stateDir)
  const report = await askControl(control, `/hooks/${config.operand}`, {}, HOOK_LIMIT_MS)
  return print(`${JSON.stringify(report)}\n`)
}

const workflow = async (config: Settings, words: Arguments): Promise<number> => {
  const { runFromShell } = await import("./cli/workflow.ts")
  const { ok, report } = await runFromShell(config, words)
  print(`${JSON.stringify(report, undefined, 2)}\n`)
  return ok ? 0 : 1
}

const up = async (config: Settings, log: Log): Promise<number> => {
  const asked = signalled()
  const reaper = startReaper({ clock: systemClock, log })
  const interactive = process.stdin.isTTY === true
  const { startUp } = await import("./cli/up.ts")
  const everything = await startUp({
    config,
    version,
    log,
    input: process.stdin,
    output: process.stdout,
    interactive,
  })
  await Promise.race([everything.finished, asked])
  await within(systemClock, STOP_LIMIT_MS, everything.stop())
  reaper.stop()
  return 0
}

const chat = async (config: Settings, words: Arguments): Promise<number> => {
  const { startChat } = await import("./cli/chat.ts")
  const talk = startChat({
    input: process.stdin,
    output: process.stdout,
    interactive: process.stdin.isTTY === true && words.text === undefined,
    clock: systemClock,
    hub: hubOf(config),
    session: config.sessionId,
    model: config.model,
    ...words,
  })
  process.on("SIGINT", talk.interrupt)
  return talk.finished
}

const sessions = async (config: Settings): Promise<number> => {
  const { url, token } = hubOf(config)
  const answer = await fetch(`${url}/sessions`, { headers: { Authorization: `Bearer ${token}` } })
  if (!answer.ok) throw new Error(`the hub answered HTTP ${answer.status}`)
  const { describeSessions } = await import("./cli/sessions.ts")
  return print(describeSessions(await answer.json()))
}

const hubOf = (config: Settings): HubAddress => {
  const address = readAddress(config.stateDir)
  if (address) return address
  throw new SettingsError(
    `no session agent runs on ${config.stateDir}: start one with \`sandpiper up\` (SANDPIPER_STATE_DIR, --state-dir)`,
  )
}

const signalled = (): Promise<Ending> =>
  new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => resolve({ code: 0, why: `received ${signal}` }))
    }
  })

/** Whoever holds the other end of the pipe is gone, however it went. */
const inputEnded = (config: Settings): Promise<Ending> =>
  new Promise((resolve) => {
    if (!config.stopWithStdin) return
    process.stdin.on("end", () => resolve({ code: 0, why: "the standard input has ended" }))
    process.stdin.resume()
  })

const logFor = (config: Settings): Log => {
  const terminal = process.stderr.isTTY === true
  return createLog({
    level: config.logLevel,
    format: config.logFormat === "auto" ? (terminal ? "pretty" : "json") : config.logFormat,
    secrets: config.secrets,
    write: (line) => process.stderr.write(`${line}\n`),
    now: Date.now,
  })
}

const print = (text: string): number => {
  process.stdout.write(text)
  return 0
}

try {
  process.exit(await main())
} catch (error) {
  const bad = error instanceof SettingsError
  process.stderr.write(`sandpiper: ${describeError(error)}\n`)
  process.exit(bad ? 2 : 1)
}

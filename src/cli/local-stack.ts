/** The whole system on one machine: session agent, runner, chat, and a demo model if no provider key is set. */
import { join } from "node:path"
import type { Readable, Writable } from "node:stream"
import { SignJWT } from "jose"
import { providerKeysOf, type RuntimeConfig } from "../runner/opencode/config/compose-config.ts"
import type { Settings } from "../settings/settings.ts"
import { createDaemon, type Daemon } from "../runner/daemon.ts"
import { startDemoModel } from "../demo/demo.ts"
import { startOnStablePort } from "../demo/stable-port.ts"
import type { MissingProgram } from "../runner/host/services.ts"
import { removeAddress, writeAddress } from "../hub/hosts/bun/address.ts"
import { startChat } from "./terminal-chat.ts"
import { hashOf } from "../hub/keys.ts"
import { startLocalHub } from "../hub/hosts/bun/local-hub.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"

export interface LocalStackOptions {
  readonly settings: Settings
  readonly version: string
  readonly log: Log
  readonly input: Readable
  readonly output: Writable
  readonly interactive: boolean
}

export interface LocalStack {
  readonly daemon: Daemon
  /** Resolves when the chat has ended or the runner has stopped. */
  readonly finished: Promise<void>
  readonly stop: () => Promise<void>
}

export const startLocalStack = async (options: LocalStackOptions): Promise<LocalStack> => {
  const { log, output } = options
  // All tokens for this gateway are made below, so a new key at every start is fine.
  const jwtSecret = options.settings.jwtSecret ?? crypto.randomUUID()
  log.hide([jwtSecret])
  const settings = { ...options.settings, jwtSecret }
  const token = await personToken(jwtSecret, settings.sessionId)
  const hasKey = Object.keys(providerKeysOf(settings.environment)).length > 0
  const demo = hasKey
    ? undefined
    : await startOnStablePort(join(settings.stateDir, "demo-port"), (port) =>
        startDemoModel({ port }),
      )
  const clientToken = crypto.randomUUID()
  const runnerToken = crypto.randomUUID()
  const hub = await startLocalHub({
    stateDir: settings.stateDir,
    workDir: settings.workDir,
    port: settings.hubPort,
    environment: settings.environment,
    chatSession: settings.sessionId,
    clock: systemClock,
    log: log.child({ component: "hub" }),
    clientToken,
  })
  writeAddress(settings.stateDir, { url: hub.url, token: clientToken })
  const session = hub.create(settings.sessionId)
  session.setRunnerToken(await hashOf(runnerToken))
  session.configure(demo ? demoConfig(demo.url) : { customProviders: [] })
  const daemon = createDaemon({
    config: settings,
    link: { url: hub.runnerUrl(settings.sessionId), token: runnerToken },
    version: options.version,
    log,
    reservedPorts: new Map([
      [Number(new URL(hub.url).port), "the session agent"],
      ...(demo ? [[demo.port, "the demo model"] as const] : []),
    ]),
  })
  if (options.interactive) {
    output.write(`Session agent: ${hub.url}  token: ${clientToken}\n`)
  }
  output.write("Starting the agent (a few seconds)...\n")
  let port = settings.gatewayPort
  const chat = startChat({
    ...options,
    clock: systemClock,
    hub: { url: hub.url, token: clientToken },
    session: settings.sessionId,
    greeting: () => {
      const links = options.interactive
        ? linksOf(settings.services, daemon.missingPrograms(), port, token)
        : []
      return [greeting(settings, demo !== undefined), ...links].join("\n")
    },
  })
  port = (await daemon.start()).port
  await hub.resume()
  return {
    daemon,
    finished: Promise.race([chat.finished, daemon.done]).then(() => undefined),
    stop: async () => {
      chat.close()
      removeAddress(settings.stateDir)
      await daemon.stop({ code: 0, why: "the chat has ended" })
      await hub.stop()
      await demo?.stop()
    },
  }
}

/** Maximum length of a person's session with the gateway. */
const TOKEN_VALIDITY = "12h"

const personToken = (secret: string, sessionId: string): Promise<string> =>
  new SignJWT({ sid: sessionId })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("up")
    .setExpirationTime(TOKEN_VALIDITY)
    .sign(new TextEncoder().encode(secret))

const pages = {
  vscode: ["Editor", "/vscode/?"],
  vnc: ["Screen", "/vnc/vnc.html?path=vnc/websockify&autoconnect=true&"],
  ttyd: ["Terminal", "/ttyd/?"],
} as const

/**
 * One line per requested service: its link, with a token for this session only, or the programs that must be installed
 * first.
 */
export const linksOf = (
  services: Settings["services"],
  missing: readonly MissingProgram[],
  port: number,
  token: string,
): readonly string[] =>
  services.map((name) => {
    const [title, path] = pages[name]
    const programs = missing.filter(({ group }) => group === name).map(({ program }) => program)
    const text =
      programs.length > 0
        ? `not available: install ${programs.join(", ")} and restart`
        : `http://localhost:${port}${path}token=${token}`
    return `${title.padEnd(9)} ${text}`
  })

const demoConfig = (url: string): RuntimeConfig => ({
  customProviders: [
    {
      providerId: "demo",
      displayName: "Demo model (scripted, not an LLM)",
      baseUrl: url,
      apiKey: "none",
      models: [{ id: "demo-1", name: "Demo 1 (scripted)" }],
    },
  ],
})

const greeting = (settings: Settings, demo: boolean): string => {
  const model = demo
    ? "No provider key is set, so a scripted demo model replies: it is not an LLM. Everything else is real.\nTry:  run: ls -la   write: hello.txt   ask   plan   think   fail"
    : "Type a prompt."
  return `\nReady. The agent works in ${settings.workDir}\n${model}\nCtrl-C cancels a turn, Ctrl-D exits.\n`
}

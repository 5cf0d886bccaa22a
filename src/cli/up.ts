/** Everything on one machine: a session agent, a runner, a demo model when there is no key, a chat to use them. */
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
import { startChat } from "./chat.ts"
import { hashOf } from "../hub/keys.ts"
import { startLocalHub } from "../hub/hosts/bun/local-hub.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"

export interface UpOptions {
  readonly config: Settings
  readonly version: string
  readonly log: Log
  readonly input: Readable
  readonly output: Writable
  readonly interactive: boolean
}

export interface Up {
  readonly daemon: Daemon
  /** Resolves when the person is done or the runner has ended by itself. */
  readonly finished: Promise<void>
  readonly stop: () => Promise<void>
}

export const startUp = async (options: UpOptions): Promise<Up> => {
  const { log, output } = options
  // Nobody else makes tokens for this machine's gateway: the key may be new at every start.
  const jwtSecret = options.config.jwtSecret ?? crypto.randomUUID()
  log.hide([jwtSecret])
  const config = { ...options.config, jwtSecret }
  const token = await personToken(jwtSecret, config.sessionId)
  const hasKey = Object.keys(providerKeysOf(config.environment)).length > 0
  const demo = hasKey
    ? undefined
    : await startOnStablePort(join(config.stateDir, "demo-port"), (port) =>
        startDemoModel({ port }),
      )
  const clientToken = crypto.randomUUID()
  const runnerToken = crypto.randomUUID()
  const hub = await startLocalHub({
    stateDir: config.stateDir,
    workDir: config.workDir,
    port: config.hubPort,
    environment: config.environment,
    clock: systemClock,
    log: log.child({ part: "hub" }),
    clientToken,
  })
  writeAddress(config.stateDir, { url: hub.url, token: clientToken })
  const session = hub.create(config.sessionId)
  session.setRunnerToken(await hashOf(runnerToken))
  session.configure(demo ? demoConfig(demo.url) : { customProviders: [] })
  const daemon = createDaemon({
    config,
    link: { url: hub.runnerUrl(config.sessionId), token: runnerToken },
    version: options.version,
    log,
  })
  if (options.interactive) {
    output.write(`Session agent: ${hub.url}  token: ${clientToken}\n`)
  }
  output.write("Starting the agent (a few seconds)...\n")
  let port = config.gatewayPort
  const chat = startChat({
    ...options,
    clock: systemClock,
    hub: { url: hub.url, token: clientToken },
    session: config.sessionId,
    greeting: () => {
      const links = options.interactive
        ? linksOf(config.services, daemon.missingPrograms(), port, token)
        : []
      return [greeting(config, demo !== undefined), ...links].join("\n")
    },
  })
  port = (await daemon.start()).port
  await hub.resume()
  return {
    daemon,
    finished: Promise.race([chat.finished, daemon.done]).then(() => undefined),
    stop: async () => {
      chat.close()
      removeAddress(config.stateDir)
      await daemon.stop({ code: 0, why: "the chat is over" })
      await hub.stop()
      await demo?.stop()
    },
  }
}

/** As long as a session of a person may last. */
const TOKEN_LIFE = "12h"

const personToken = (secret: string, sessionId: string): Promise<string> =>
  new SignJWT({ sid: sessionId })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("up")
    .setExpirationTime(TOKEN_LIFE)
    .sign(new TextEncoder().encode(secret))

const pages = {
  vscode: ["Editor", "/vscode/?"],
  vnc: ["Screen", "/vnc/vnc.html?path=vnc/websockify&autoconnect=true&"],
  ttyd: ["Terminal", "/ttyd/?"],
} as const

/**
 * What a person opens beside the chat; the token in each is for this session only. What is wanted and cannot be had gets
 * a line that says what it lacks.
 */
export const linksOf = (
  services: Settings["services"],
  missing: readonly MissingProgram[],
  port: number,
  token: string,
): readonly string[] =>
  services.map((name) => {
    const [title, path] = pages[name]
    const lacks = missing.filter(({ group }) => group === name).map(({ program }) => program)
    const words =
      lacks.length > 0
        ? `is not there: install ${lacks.join(", ")} and start again`
        : `http://localhost:${port}${path}token=${token}`
    return `${title.padEnd(9)} ${words}`
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

const greeting = (config: Settings, demo: boolean): string => {
  const model = demo
    ? "No provider key is set, so a scripted demo model answers: it is not an LLM. Everything else is real.\nTry:  run: ls -la   write: hello.txt   ask   plan   think   fail"
    : "Ask for something to be done."
  return `\nReady. The agent works in ${config.workDir}\n${model}\nCtrl-C stops an answer, Ctrl-D leaves.\n`
}

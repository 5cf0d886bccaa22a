/** The whole system on one machine: session agent, runner, page, chat, and a demo model if no provider key is set. */
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Readable, Writable } from "node:stream"
import { SignJWT } from "jose"
import type { RuntimeConfig } from "../runner/opencode/config/compose-config.ts"
import type { Settings } from "../settings/settings.ts"
import { createDaemon } from "../runner/daemon.ts"
import { startDemoModel } from "../demo/demo.ts"
import { startOnStablePort } from "../demo/stable-port.ts"
import { openStateParts } from "../runner/state/open-parts.ts"
import { chooseAgentUser } from "../runner/host/users.ts"
import type { MissingProgram } from "../runner/host/services.ts"
import { removeAddress, writeAddress } from "../hub/hosts/bun/address.ts"
import { demoProvider, hasClientModels, openHostTools, withHostConfig } from "./host-config.ts"
import { nextSession, partsToOpen, sessionBefore } from "./place/next-session.ts"
import { boxNameOf } from "./place/box-name.ts"
import { chooseGatewayPort } from "./place/gateway-port.ts"
import { openHistory } from "./chat/history-file.ts"
import { announceReady } from "./announce-ready.ts"
import { loadBuiltPage } from "./load-page-files.ts"
import { newLoginLink, openInBrowser, pageOriginsOf } from "./page-link.ts"
import { modelsOfStack } from "./stack-models.ts"
import { startChat } from "./terminal-chat.ts"
import { hashOf } from "../hub/keys.ts"
import { openPageLogins } from "../hub/page-logins.ts"
import { boxOrigin, originFor } from "../runner/gateway/hosts.ts"
import type { PageFiles } from "../lib/page/asset-response.ts"
import type { PageOptions } from "../runner/gateway/page/page-door.ts"
import { startLocalHub } from "../hub/hosts/bun/local-hub.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"

export interface LocalStackOptions {
  readonly settings: Settings
  /** The directory that all places share. */
  readonly base: string
  readonly version: string
  readonly log: Log
  readonly input: Readable
  readonly output: Writable
  readonly interactive: boolean
  /** A chat on `input` and `output`. Without it the page is the only client. */
  readonly chat: boolean
  /** The program that opens the page once it is served. */
  readonly browser: string | undefined
}

export interface LocalStack {
  /** Resolves when the chat has ended or the runner has stopped, with the exit code. */
  readonly finished: Promise<number>
  readonly stop: () => Promise<void>
}

export const startLocalStack = async (options: LocalStackOptions): Promise<LocalStack> => {
  const { log, output } = options
  // All tokens for this gateway are made below, so a new key at every start is fine.
  const jwtSecret = options.settings.jwtSecret ?? crypto.randomUUID()
  log.hide([jwtSecret])
  const { stateDir } = options.settings
  const portFile = join(stateDir, "gateway-port.txt")
  const gatewayPort = await chooseGatewayPort(options.settings, options.base, portFile)
  const models = await modelsOfStack(options.settings)
  for (const problem of models.problems) output.write(`${problem}\n`)
  const clientToken = crypto.randomUUID()
  const runnerToken = crypto.randomUUID()
  const hub = await startLocalHub({
    stateDir,
    workDir: options.settings.workDir,
    port: options.settings.hubPort,
    maxChildren: options.settings.maxChildren,
    maxChildDepth: options.settings.maxChildDepth,
    allowedOrigins: options.settings.allowedOrigins,
    environment: models.settings.environment,
    // Known only once the sessions of this hub are: an ended one is followed by a new one.
    chatSession: () => sessionId,
    firstSession: () => sessionId,
    agentUser: chooseAgentUser(options.settings.agentUser, process.getuid?.() === 0),
    clock: systemClock,
    log: log.child({ component: "hub" }),
    clientToken,
    jwt: {
      secret: options.settings.hubJwtSecret,
      jwksUrl: options.settings.hubJwksUrl,
      issuer: options.settings.hubJwtIssuer,
      audience: options.settings.hubJwtAudience,
    },
    encryptionKey: options.settings.hubEncryptionKey,
    gatewayKey: (session) => (session === sessionId ? jwtSecret : undefined),
  })
  const hasEnded = (id: string) => hub.find(id)?.status().status === "ended"
  const sessionId = nextSession(options.settings.sessionId, hasEnded)
  const endedSession = sessionBefore(sessionId, options.settings.sessionId)
  if (endedSession !== undefined) {
    output.write(`Session ${endedSession} has ended. A new session starts: ${sessionId}\n`)
  }
  const settings = {
    ...models.settings,
    jwtSecret,
    sessionId,
    gatewayPort: gatewayPort.port,
    sandboxOrigin: sandboxOriginOf(options.settings, sessionId),
  }
  const state = await openStateParts({
    config: settings,
    log,
    ...partsToOpen(stateDir, sessionId, endedSession),
  })
  const token = await personToken(jwtSecret, sessionId)
  writeAddress(stateDir, { url: hub.url, token: clientToken, session: sessionId })
  const session = hub.create(sessionId)
  session.setRunnerToken(await hashOf(runnerToken))
  const stored: RuntimeConfig = session.config()
  const demo =
    models.needsDemo && !hasClientModels(stored)
      ? await startOnStablePort(join(stateDir, "demo-port"), (port) => startDemoModel({ port }))
      : undefined
  const hostTools = openHostTools(stateDir)
  const tools = hub.toolSwitches()
  const provider = demo && demoProvider(demo.url)
  session.configure(withHostConfig(stored, hostTools.read(), { provider, tools }))
  hostTools.write(tools)
  const pageFiles = await loadBuiltPage()
  const page = pageOf(settings, pageFiles, {
    port: Number(new URL(hub.url).port),
    authorization: `Bearer ${clientToken}`,
  })
  const daemon = createDaemon({
    config: settings,
    ...(page && { page }),
    pageFiles,
    staysOpen: true,
    state,
    endpoints: models.endpoints,
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
  const readyText = () => {
    const box = page ? boxOrigin(page.tunnels) : "http://localhost"
    const origin = page ? originFor(box, `:${port}`) : `${box}:${port}`
    const links = options.interactive
      ? linksOf(settings.services, daemon.missingPrograms(), {
          origin,
          token,
          hasTerminals: pageFiles !== undefined,
        })
      : []
    const model = models.describe(daemon.model(), providersOf(session.config()))
    return [greeting(settings, model, options.chat), ...links].join("\n")
  }
  const client = { url: hub.url, token: clientToken }
  const chat = options.chat
    ? startChat({
        ...options,
        clock: systemClock,
        hub: client,
        session: settings.sessionId,
        history: openHistory(stateDir),
        greeting: readyText,
      })
    : undefined
  port = (await daemon.start()).port
  await writeFile(portFile, `${port}\n`, { mode: 0o600 })
  const pageOrigin = page && originFor(page.page, `:${port}`)
  writeAddress(stateDir, {
    ...client,
    session: sessionId,
    ...(pageOrigin !== undefined && { page: pageOrigin }),
  })
  const newLink = () => newLoginLink(stateDir, pageOrigin ?? "", Date.now())
  if (options.interactive && pageOrigin !== undefined) {
    output.write(`Open the page: ${newLink()}\n`)
    output.write("This link is valid once, for 10 minutes; `sandpiper link` prints another.\n")
  }
  if (page === undefined) output.write(NO_PAGE)
  const stopAnnouncing = chat
    ? () => {}
    : announceReady({
        hub: client,
        session: sessionId,
        clock: systemClock,
        write: (text) => void output.write(text),
        text: readyText,
      })
  if (options.browser !== undefined && pageOrigin !== undefined)
    openInBrowser(settings, options.browser, newLink(), systemClock.after)
  await hub.resume()
  return {
    finished: Promise.race([
      ...(chat ? [chat.finished] : []),
      daemon.done.then(({ code }) => code),
    ]).then((code) => {
      if (hasEnded(sessionId))
        output.write("The session has ended. The next `sandpiper up` starts a new one.\n")
      return code
    }),
    stop: async () => {
      chat?.close()
      stopAnnouncing()
      removeAddress(settings.stateDir)
      await daemon.stop({ code: 0, why: "the chat has ended" })
      await hub.stop()
      await demo?.stop()
      gatewayPort.release()
    },
  }
}

/** The one that is set, or a name of this session's own. */
const sandboxOriginOf = (
  { given, sandboxOrigin, stateDir }: Settings,
  session: string,
): string | undefined =>
  given.has("sandboxOrigin")
    ? sandboxOrigin
    : sandboxOrigin?.replace("--box.", `--${boxNameOf(stateDir, session)}.`)

const NO_PAGE =
  "The page is off: set PAGE_ORIGIN and SANDBOX_ORIGIN both or neither, and build with `npm run build`.\n"

/** Undefined if only one of its two origins is set, or if the page is not built. */
const pageOf = (
  settings: Settings,
  files: PageFiles | undefined,
  hub: PageOptions["hub"],
): PageOptions | undefined => {
  const origins = pageOriginsOf(settings)
  const logins = openPageLogins(settings.stateDir, Date.now)
  return origins && files && { ...origins, files, hub, logins }
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

/** The runner's own terminals need no program; the gateway serves them where the page is built. */
const ownTerminal = ["Terminal", "/terminal/?"] as const

interface LinkPlace {
  readonly origin: string
  readonly token: string
  /** The gateway serves the runner's own terminals. */
  readonly hasTerminals: boolean
}

/**
 * One line per requested service: its link, with a token for this session only, or the programs that must be installed
 * first.
 */
export const linksOf = (
  services: Settings["services"],
  missing: readonly MissingProgram[],
  { origin, token, hasTerminals }: LinkPlace,
): readonly string[] =>
  services.map((name) => {
    const isOwn = name === "ttyd" && hasTerminals
    const [title, path] = isOwn ? ownTerminal : pages[name]
    const needed = isOwn ? [] : missing.filter(({ group }) => group === name)
    const programs = needed.map(({ program }) => program)
    const text =
      programs.length > 0
        ? `not available: install ${programs.join(", ")} and restart`
        : `${origin}${path}token=${token}`
    return `${title.padEnd(9)} ${text}`
  })

const providersOf = ({ providerKeys = {}, customProviders = [] }: RuntimeConfig) => [
  ...Object.keys(providerKeys),
  ...customProviders.map(({ providerId }) => providerId),
]

const greeting = (settings: Settings, model: string, chat: boolean): string => {
  const help = chat
    ? "Type a prompt; Alt-Enter starts a new line. Ctrl-C clears the line, then cancels the turn, then exits; Ctrl-D exits."
    : "Work on the page. `sandpiper chat` is a chat in a terminal. Ctrl-C ends everything."
  return `\nReady. The agent works in ${settings.workDir}\n${model}\n${help}\n`
}

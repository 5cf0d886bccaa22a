/** `sandpiper serve`: the hub and the fleet for many sessions, until a signal ends them. The sandboxes go on. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { chooseProvider } from "../fleet/providers/choose.ts"
import { chatSecretsIn, configureChats } from "../hub/adapters/configured-chats.ts"
import { removeAddress, writeAddress } from "../hub/hosts/bun/address.ts"
import { systemClock, within } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import { SettingsError } from "../settings/settings-error.ts"
import type { Settings } from "../settings/settings.ts"
import { type Command, print, STOP_LIMIT_MS, untilSignal } from "./command.ts"
import { demoProvider, hasClientModels } from "./host-config.ts"
import { operatorTokenFile, readOperatorToken } from "./operator-token.ts"
import { createJwtVerifier } from "../hub/access/verify-jwt.ts"
import { runtimeKey } from "./runtime-key.ts"
import { namesWithoutEffect, sandboxEnvironment } from "./sandbox-environment.ts"
import { diskLimitOf, limitsOf } from "./sandbox-limits.ts"
import { startServedFleet } from "./serve-fleet.ts"
import { providerMakers } from "./serve-providers.ts"
import { loadBuiltPage } from "./load-page-files.ts"
import { servePage } from "./serve-page.ts"
import { originFor } from "../runner/gateway/hosts.ts"
import { refuseUnknownActions } from "../runner/join-approvals.ts"
import { startServeStack } from "./serve-stack.ts"
import { openStore } from "./serve-store.ts"
import { type Lock, takeLock } from "./place/lock.ts"
import { untilPortIsFree } from "./port-in-use.ts"
import { modelsOfStack } from "./stack-models.ts"

/** The same port after a restart: the runners of running sandboxes connect to it again. */
const portFile = (stateDir: string) => join(stateDir, "fleet", "hub-port")
const readPort = (stateDir: string): number =>
  existsSync(portFile(stateDir)) ? Number(readFileSync(portFile(stateDir), "utf8")) : 0

/** A limit of 0 is none. */
const orNone = (limit: number): number | undefined => (limit === 0 ? undefined : limit)

export const serve: Command = async ({ settings: given, log }) => {
  const signalled = untilSignal()
  const { stateDir } = given
  // In a sandbox it would be found only when its runner starts.
  refuseUnknownActions(given.approveActions ?? [])
  const ignored = namesWithoutEffect(given.environment)
  if (ignored.length > 0)
    print(`No effect in \`serve\`, because each session has its own: ${ignored.join(", ")}\n`)
  for (const line of chatsOff(given)) print(`${line}\n`)
  mkdirSync(join(stateDir, "fleet"), { recursive: true, mode: 0o700 })
  const lock = lockState(given)
  const models = await modelsOfStack(given)
  for (const problem of models.problems) print(`${problem}\n`)
  const { settings } = models
  const modelUrls = models.endpoints.flatMap(({ baseUrl }) => baseUrl ?? [])
  const provider = await chooseProvider(
    given.sandboxProvider,
    providerMakers(settings, log, modelUrls),
  )
  const resources = limitsOf(settings, provider)
  const clientToken = readOperatorToken(stateDir, given.operatorTokenFile)
  log.hide([clientToken])
  const { startDemoModel } = await import("../demo/demo.ts")
  const { startOnStablePort } = await import("../demo/stable-port.ts")
  const fleetOptions = {
    provider,
    store: await openStore(settings, provider, log),
    version,
    idleMs: settings.sandboxIdleSeconds * 1000,
    idleBufferMs: settings.sandboxIdleBufferSeconds * 1000,
    lifeMs: settings.sandboxMaxSeconds * 1000,
    pausedMs:
      settings.sandboxPausedSeconds === 0 ? undefined : settings.sandboxPausedSeconds * 1000,
    storedMs: settings.sandboxPausedDays * 86_400_000,
    minimumVersion: settings.snapshotMinimumVersion,
    resources,
    diskLimit: await diskLimitOf(settings, provider),
    quotas: {
      running: orNone(settings.sandboxQuota),
      createsPerHour: orNone(settings.sandboxCreatesPerHour),
      createsPerDay: orNone(settings.sandboxCreatesPerDay),
      minutesPerDay: orNone(settings.sandboxMinutesPerDay),
    },
    volumeMs: settings.sandboxVolumeDays * 86_400_000,
    historyMs: settings.sandboxHistoryDays * 86_400_000,
    costPerHour: settings.sandboxCostPerHour,
    whisperVolume: settings.whisperVolume,
    poolSize: settings.sandboxPool,
    runtimeKey: runtimeKey(settings, provider.name),
  }
  const jwt = {
    secret: settings.hubJwtSecret,
    jwksUrl: settings.hubJwksUrl,
    issuer: settings.hubJwtIssuer,
    audience: settings.hubJwtAudience,
  }
  const port = settings.hubPort || readPort(stateDir)
  const free = untilPortIsFree({
    hostname: settings.serveHost,
    port,
    clock: systemClock,
    say: print,
  })
  if ((await Promise.race([free.then(() => "free" as const), signalled])) !== "free") {
    await provider.leave?.()
    return 0
  }
  if (settings.hubUrl !== undefined) {
    if (settings.fleetKey === undefined)
      throw new Error("FLEET_KEY is missing: HUB_URL needs the key that the hub has, too")
    const served = await startServedFleet({
      ...fleetOptions,
      hubUrl: settings.hubUrl,
      allowedOrigins: settings.allowedOrigins,
      fleetKey: settings.fleetKey,
      hostname: settings.serveHost,
      port,
      operatorToken: clientToken,
      // The people of the hub are those of the fleet.
      verifyJwt: createJwtVerifier(jwt, { now: systemClock.now, fetch }),
      clock: systemClock,
      log,
      environmentOf: sandboxEnvironment(settings.environment),
    })
    writeFileSync(portFile(stateDir), String(served.port))
    mkdirSync(join(stateDir, "hub"), { recursive: true, mode: 0o700 })
    writeAddress(stateDir, { url: served.url, token: clientToken })
    print(`Fleet: ${served.url}\nHub: ${settings.hubUrl}\nSandboxes: ${provider.name}\n`)
    await signalled
    removeAddress(stateDir)
    await within(systemClock, STOP_LIMIT_MS, served.stop())
    await provider.leave?.()
    lock?.release()
    return 0
  }
  const demo = models.needsDemo
    ? await startOnStablePort(join(stateDir, "demo-port"), (demoPort) =>
        startDemoModel({ port: demoPort }),
      )
    : undefined
  const page = servePage(settings, await loadBuiltPage(), clientToken)
  const stack = await startServeStack({
    ...fleetOptions,
    pageOrigin: page?.origin,
    configure: async (id, hub) => {
      const session = hub.find(id)
      if (!session) return
      const config = session.config()
      // The session may have a config already: what its client or its parent has chosen stays.
      const tools = { ...hub.toolSwitches(), ...config.tools }
      const providers =
        demo && !hasClientModels(config) ? { customProviders: [demoProvider(demo.url)] } : {}
      session.configure({ tools, ...providers })
    },
    hub: {
      stateDir,
      workDir: settings.workDir,
      port,
      hostname: settings.serveHost,
      names: settings.serveNames ?? [],
      environment: settings.environment,
      clock: systemClock,
      log: log.child({ component: "hub" }),
      clientToken,
      allowedOrigins: settings.allowedOrigins,
      maxChildren: settings.maxChildren,
      maxChildDepth: settings.maxChildDepth,
      jwt,
      encryptionKey: settings.hubEncryptionKey,
      page,
    },
  })
  writeFileSync(portFile(stateDir), String(stack.hub.port))
  const pageOrigin = page && originFor(page.origin, `:${stack.hub.port}`)
  writeAddress(stateDir, {
    url: stack.hub.url,
    token: clientToken,
    ...(pageOrigin !== undefined && { page: pageOrigin }),
  })
  print(`Session agent: ${stack.hub.url}\nSandboxes: ${provider.name}\n`)
  // A login link is a secret: it is not printed to a log.
  if (page && process.stdout.isTTY) print(`Open the page: ${page.newLink(stack.hub.port)}\n`)
  if (page) print(`Page: ${pageOrigin}; \`sandpiper link\` prints a login link for it\n`)
  print(`The operator's token is in ${operatorTokenFile(stateDir, given.operatorTokenFile)}\n`)
  await signalled
  removeAddress(stateDir)
  await within(systemClock, STOP_LIMIT_MS, stack.stop())
  await demo?.stop()
  await provider.leave?.()
  lock?.release()
  return 0
}

/** The chat services that are set here without effect, and why. */
const chatsOff = ({ environment, hubUrl }: Settings): readonly string[] => {
  if (hubUrl === undefined) return configureChats({ environment, now: systemClock.now }).incomplete
  const names = chatSecretsIn(environment)
  return names.length === 0
    ? []
    : [`No effect in \`serve\` with HUB_URL, because the hub talks to chats: ${names.join(", ")}`]
}

/**
 * Two hubs on the same files would run a prompt twice. Replicas whose sessions are in PostgreSQL and whose hub is elsewhere
 * share nothing in the directory but the operator's token, unless OPERATOR_TOKEN_FILE names another file.
 */
const lockState = ({ stateDir, hubUrl, databaseUrl }: Settings): Lock | undefined => {
  if (hubUrl !== undefined && databaseUrl !== undefined) return undefined
  const lock = takeLock(join(stateDir, "fleet"))
  if (lock) return lock
  throw new SettingsError(
    `another \`serve\` uses ${stateDir}: stop it, or set SANDPIPER_STATE_DIR to another directory`,
  )
}

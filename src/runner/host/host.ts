/** Joins the host side of the runner: repositories, persona files, services and the control server. */
import { existsSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import type { Settings } from "../../settings/settings.ts"
import type { GitCredentials } from "../../wire/frames/index.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { sessionFolder } from "../../lib/state-folders.ts"
import { type Control, controlVariables, type Hook, startControl } from "./control-socket.ts"
import { createRepositories } from "./bring-repositories.ts"
import { writeGitConfig } from "./clone-repository.ts"
import { createGitAccount } from "./git-account.ts"
import { shellQuoted } from "../../lib/shell-quote.ts"
import { writeGitConfigFile } from "./git-config-file.ts"
import { writeGhWrapper } from "./gh-wrapper.ts"
import { createGitTokens, type IssuedToken } from "./git-tokens.ts"
import { clearChromiumLock, ownerOf } from "./stale-locks.ts"
import { type Credential, repositoriesAt, tokenOrigins } from "./repository-rules.ts"
import { type PanelServices, panelServices } from "./panel-services.ts"
import type { ServiceState } from "./service-state.ts"
import { prepareSockets, serviceSockets } from "./service-sockets.ts"
import { servicesOf } from "./service-table.ts"
import { createServices, type Services } from "./services.ts"
import { sandboxBootId } from "./detect-restore.ts"
import { handOver, type User } from "./users.ts"
import { plannedDirectory } from "./prepare-repositories.ts"

export type ComponentState = "starting" | "ready" | "degraded" | "failed" | "off"

export interface HostOptions {
  readonly config: Settings
  /** The current repositories and tokens: a restored sandbox may have new ones. */
  readonly current: () => Pick<Settings, "repositories" | "githubToken">
  /** The command that starts this program; git starts it as its credential helper. */
  readonly self: readonly string[]
  readonly apiToken: string
  /** The agent's user if it is not the runner's own. Services run as this user too. */
  readonly user: User | undefined
  /** The agent's environment, which services get too. */
  readonly environment: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly log: Log
  /** Small values that survive a restart of the process. */
  readonly memory: {
    readonly read: (name: string) => string | undefined
    readonly write: (name: string, value: string) => void
  }
  readonly setComponent: (name: string, state: ComponentState, why?: string) => void
  /** Brings the saved files into a new sandbox; resolves to a problem, if there is one. */
  readonly restoreWorkspace?: () => Promise<string | undefined>
  /** The runner itself serves terminals. */
  readonly hasTerminals: boolean
  /** A service that people open has another state. */
  readonly setServices: (services: PanelServices) => void
  /** Asks the session agent for a short-lived token. */
  readonly issueGitToken: (origin: string, repositories: readonly string[]) => Promise<IssuedToken>
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  readonly runWorkflow: (
    order: unknown,
    caller: "owner" | "agent",
    disconnected: AbortSignal,
  ) => Promise<object>
}

export interface Host {
  /** Starts everything in parallel; resolves when the control server listens. */
  readonly start: () => Promise<void>
  /** Resolves when repositories and persona files are in place. Failures are reported as a component state. */
  readonly prepared: () => Promise<void>
  /** Resolves when the working directory exists for good; waits for a first clone, which replaces the directory. */
  readonly directoryReady: () => Promise<void>
  /** The control server's port once it listens. */
  readonly controlPort: () => number | undefined
  /** A glob pattern. */
  readonly personaFiles: string
  /**
   * From now on git uses these. What is absent comes from the settings. Repositories that could not be cloned are tried once
   * more with a new password. An OpenCode that runs already learns that its directory is a repository with its next config.
   */
  readonly setGitCredentials: (given: GitCredentials) => void
  readonly services: Pick<Services, "start" | "stop" | "missing">
  /** After a restore with memory: pulls the clones, if the settings allow it. */
  readonly refresh: () => Promise<void>
  readonly stop: () => Promise<void>
}

const BOOT_FACT = "host.life"

export const createHost = (options: HostOptions): Host => {
  const { config, clock, log, memory, setComponent } = options
  const repositories = config.repositories
  const account = createGitAccount(options)
  const issuedFor = (): readonly string[] =>
    config.gitTokens === "session" ? tokenOrigins(options.current().repositories) : []
  const tokens = createGitTokens({
    credentials: account.credentials,
    issuedFor,
    issue: (origin) =>
      options.issueGitToken(origin, repositoriesAt(origin, options.current().repositories)),
    clock,
    log,
  })
  const helper = [...options.self, "git-credential", "--state-dir", config.stateDir]
    .map(shellQuoted)
    .join(" ")
  const gitFolder = join(sessionFolder(config.stateDir), "git")
  const gitConfig = () => ({
    ...account.author(),
    origins: [...new Set([...account.credentials().map(({ origin }) => origin), ...issuedFor()])],
    helper,
  })
  const ownHome = config.environment["HOME"] || "/root"
  const home = options.user?.home ?? ownHome
  const environment = {
    ...options.environment,
    HOME: home,
    // For git's credential helper, in terminals too.
    ...controlVariables(config.stateDir, options.apiToken),
  }
  const git = { environment, user: options.user, log }
  const persona = join(sessionFolder(config.stateDir), "persona")
  const brought = createRepositories({ ...options, git, persona })
  const prepared = Promise.withResolvers<void>()
  const directory = plannedDirectory(config.workDir, repositories)
  let control: Control | undefined

  const sockets = serviceSockets(config.stateDir)
  const wanted = servicesOf({
    display: config.display,
    workDir: directory,
    sockets,
    ports: {
      vscode: config.vscodePort,
      vnc: config.vncPort,
      rawVnc: config.rawVncPort,
      ttyd: config.ttydPort,
    },
  }).filter(({ group }) => config.services.includes(group))
  const states = new Map<string, ServiceState>()
  const reportServices = () =>
    options.setServices(
      panelServices(wanted, states, {
        missing: services.missing().map(({ program }) => program),
        hasTerminals: options.hasTerminals,
      }),
    )
  const services: Services = createServices({
    services: wanted,
    display: config.display,
    home,
    cwd: config.workDir,
    environment,
    user: options.user,
    owner: config.stateDir,
    clock,
    log,
    onChange: (name, state) => {
      setComponent(name, ...componentStateOf(state))
      states.set(name, state)
      reportServices()
    },
  })

  const isRestored = (): boolean => {
    const boot = sandboxBootId()
    const before = memory.read(BOOT_FACT)
    memory.write(BOOT_FACT, boot)
    return before !== undefined && before !== boot
  }

  const prepare = async (): Promise<void> => {
    const restored = isRestored()
    if (restored) log.info("host.restored", { why: "the boot id differs from the last start's" })
    setComponent("workspace", "starting")
    if (options.user) await handOver(config.workDir, options.user)
    if (config.command === "run" || repositories.length > 0) {
      if (config.command === "run")
        await attempt("gh.not-wrapped", () => writeGhWrapper(config.stateDir, helper))
      await attempt("git.not-configured", () =>
        writeGitConfig(
          gitFolder,
          gitConfig(),
          [
            { path: ownHome, user: undefined },
            ...(home === ownHome ? [] : [{ path: home, user: options.user }]),
          ],
          { environment: options.environment, log },
        ),
      )
    }
    // Before the clones: a saved clone has the work that was not pushed.
    const notRestored = await options.restoreWorkspace?.()
    await brought.bring(restored, notRestored)
  }

  const attempt = async (event: string, run: () => Promise<unknown>): Promise<void> => {
    try {
      await run()
    } catch (error) {
      log.warn(event, { error: describeError(error) })
    }
  }

  const clearBrowserLocks = async () => {
    const given = config.environment["AGENT_BROWSER_PROFILE"]
    for (const profile of [...(given ? [given] : []), join(home, ".config/chromium")]) {
      const removed = await clearChromiumLock(profile, ownerOf, hostname())
      if (removed.length > 0) log.info("host.stale-locks-removed", { removed })
    }
  }

  const startServices = async () => {
    if (sockets)
      await attempt("services.no-socket-directory", () =>
        prepareSockets(config.stateDir, options.user),
      )
    await services.start()
  }

  return {
    start: async () => {
      await mkdir(config.workDir, { recursive: true })
      control = await startControl({
        ...options,
        stateDir: config.stateDir,
        credentialFor: tokens.credentialFor,
      })
      void clearBrowserLocks()
      reportServices()
      void startServices()
      void prepare().then(prepared.resolve, prepared.reject)
    },
    prepared: () => prepared.promise,
    directoryReady: async () => {
      const isMissing = repositories.length > 0 && !existsSync(join(directory, ".git"))
      if (isMissing) await prepared.promise
    },
    controlPort: () => (control ? Number(new URL(control.url).port) : undefined),
    personaFiles: join(persona, "*.md"),
    setGitCredentials: (given) => {
      const before = account.credentials()
      account.set(given)
      try {
        writeGitConfigFile(gitFolder, gitConfig())
      } catch (error) {
        log.warn("git.not-configured", { error: describeError(error) })
      }
      const isKnown = ({ origin, password }: Credential) =>
        before.some((one) => one.origin === origin && one.password === password)
      if (!account.credentials().every(isKnown))
        void attempt("git.not-prepared", async () => {
          await prepared.promise.catch(() => {})
          await brought.bringMissing()
        })
    },
    services,
    refresh: async () => {
      await prepared.promise.catch(() => {})
      memory.write(BOOT_FACT, sandboxBootId())
      await brought.bring(true)
    },
    stop: async () => {
      await services.stop()
      await control?.stop()
    },
  }
}

const componentStateOf = (state: ServiceState): [ComponentState, string?] => {
  switch (state.phase) {
    case "idle":
    case "starting":
      return ["starting"]
    case "ready":
      return ["ready"]
    case "resting":
      return ["degraded", state.why]
    case "failed":
      return ["failed", state.why]
    case "off":
      return ["off", state.why]
    case "stopped":
      return ["off", "stopped"]
  }
}

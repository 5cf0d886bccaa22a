/** The machine's side of the runner, joined: repositories, persona, services, and what its own programs may ask. */
import { existsSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import type { Settings } from "../../settings/settings.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { type Control, type Hook, startControl } from "./control-socket.ts"
import { writeGitConfig } from "./clone-repository.ts"
import { shellQuoted } from "./git-config.ts"
import { clearChromiumLock, ownerOf } from "./stale-locks.ts"
import { writePersona } from "./persona.ts"
import { withoutCredentials } from "../../lib/git-url.ts"
import { credentialsOf } from "./repository-rules.ts"
import type { ServiceState } from "./service-state.ts"
import { servicesOf } from "./service-table.ts"
import { createServices, type Services } from "./services.ts"
import { lifeOf } from "./detect-restore.ts"
import { handOver, type User } from "./users.ts"
import { plannedDirectory, prepareAll } from "./prepare-repositories.ts"

export type PartState = "starting" | "ready" | "degraded" | "failed" | "off"

export interface HostOptions {
  readonly config: Settings
  /** Repositories with their tokens, as they are now: a restored sandbox may have been given others. */
  readonly current: () => Pick<Settings, "repositories" | "githubToken">
  /** How this program is started, for git to start it too. */
  readonly self: readonly string[]
  readonly apiToken: string
  /** Who the agent is, when that is not the runner: then whatever a person opens beside it is theirs, too. */
  readonly user: User | undefined
  /** What the agent may see, and so whatever a person opens beside it. */
  readonly environment: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly log: Log
  /** A small value that outlives the process. */
  readonly memory: {
    readonly read: (name: string) => string | undefined
    readonly write: (name: string, value: string) => void
  }
  readonly setPart: (name: string, state: PartState, why?: string) => void
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  readonly runWorkflow: (order: unknown, gone: AbortSignal) => Promise<object>
}

export interface Host {
  /** Starts everything at once; resolves when it can be asked. */
  readonly start: () => Promise<void>
  /** Resolves when repositories and persona are as they will be; a failure among them is told, not thrown. */
  readonly prepared: () => Promise<void>
  /** Resolves when the directory to work in is there to stay: a clone that is yet to be made takes its place. */
  readonly directoryReady: () => Promise<void>
  /** A pattern that names them all. */
  readonly personaFiles: string
  readonly services: Pick<Services, "start" | "stop" | "missing">
  /** After a restore with memory: clones are brought up to date, as far as the settings allow it. */
  readonly refresh: () => Promise<void>
  readonly stop: () => Promise<void>
}

const LIFE = "host.life"
const PULLED = "host.pulled-at"

export const createHost = (options: HostOptions): Host => {
  const { config, clock, log, memory, setPart } = options
  const repositories = config.repositories
  const credentials = () => {
    const now = options.current()
    return credentialsOf(now.repositories, now.githubToken)
  }
  const ownHome = config.environment["HOME"] || "/root"
  const home = options.user?.home ?? ownHome
  const environment = {
    ...options.environment,
    HOME: home,
    // For git, which asks the runner for passwords, in terminals as well.
    SANDPIPER_API_TOKEN: options.apiToken,
  }
  const git = { environment, user: options.user, log }
  const persona = join(config.stateDir, "persona")
  const prepared = Promise.withResolvers<void>()
  const directory = plannedDirectory(config.workDir, repositories)
  let control: Control | undefined

  const services = createServices({
    services: servicesOf({
      display: config.display,
      workDir: directory,
      ports: {
        vscode: config.vscodePort,
        vnc: config.vncPort,
        rawVnc: config.rawVncPort,
        ttyd: config.ttydPort,
      },
    }).filter(({ group }) => config.services.includes(group)),
    display: config.display,
    home,
    cwd: config.workDir,
    environment,
    user: options.user,
    owner: config.stateDir,
    clock,
    log,
    onChange: (name, state) => setPart(name, ...partOf(state)),
  })

  const isRestored = (): boolean => {
    const life = lifeOf()
    const before = memory.read(LIFE)
    memory.write(LIFE, life)
    return before !== undefined && before !== life
  }

  const mayPull = (restored: boolean): boolean => {
    if (config.gitPullOnRestore === "never") return false
    if (config.gitPullOnRestore === "restore" && !restored) return false
    const pulledAt = Number(memory.read(PULLED) ?? 0)
    if (clock.now() - pulledAt < config.gitPullEverySeconds * 1000) return false
    memory.write(PULLED, String(clock.now()))
    return true
  }

  const prepare = async (): Promise<void> => {
    const restored = isRestored()
    if (restored) log.info("host.restored", { why: "this is another boot than the last" })
    setPart("workspace", "starting")
    if (options.user) await handOver(config.workDir, options.user)
    if (config.command === "run" || repositories.length > 0) {
      await attempt("git.not-configured", () =>
        writeGitConfig(
          join(config.stateDir, "git"),
          {
            userName: config.gitUserName,
            userEmail: config.gitUserEmail,
            origins: credentials().map(({ origin }) => origin),
            helper: [...options.self, "git-credential", "--state-dir", config.stateDir]
              .map(shellQuoted)
              .join(" "),
          },
          [...new Set([ownHome, home])],
          { environment: options.environment, log },
        ),
      )
    }
    const { found, problems } = await bringRepositories(restored, (words) =>
      setPart("workspace", "starting", words),
    )
    await attempt("persona.not-written", () =>
      writePersona(
        persona,
        config.personaFiles ?? [],
        found.map(({ repository, directory: at }) => ({
          ...repository,
          url: withoutCredentials(repository.url),
          directory: at,
        })),
      ),
    )
    if (problems.length > 0) setPart("workspace", "degraded", problems.join("; "))
    else setPart("workspace", "ready")
  }

  const bringRepositories = (restored: boolean, onProgress: (words: string) => void) =>
    prepareAll(repositories, {
      workDir: config.workDir,
      pull: repositories.length > 0 && mayPull(restored),
      ...git,
      onProgress,
    })

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

  return {
    start: async () => {
      await mkdir(config.workDir, { recursive: true })
      control = await startControl({ ...options, stateDir: config.stateDir, credentials })
      void clearBrowserLocks()
      void services.start()
      void prepare().then(prepared.resolve, prepared.reject)
    },
    prepared: () => prepared.promise,
    directoryReady: async () => {
      const isComing = repositories.length > 0 && !existsSync(join(directory, ".git"))
      if (isComing) await prepared.promise
    },
    personaFiles: join(persona, "*.md"),
    services,
    refresh: async () => {
      await prepared.promise.catch(() => {})
      memory.write(LIFE, lifeOf())
      await bringRepositories(true, () => {})
    },
    stop: async () => {
      await services.stop()
      await control?.stop()
    },
  }
}

const partOf = (state: ServiceState): [PartState, string?] => {
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

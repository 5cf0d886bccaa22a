/** The machine's side of the runner, joined: repositories, persona, services, and what its own programs may ask. */
import { hostname } from "node:os"
import { join } from "node:path"
import { mkdir } from "node:fs/promises"
import type { Config } from "../config.ts"
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import { type Control, type Hook, startControl } from "./control.ts"
import { writeGitConfig } from "./git.ts"
import { shellQuoted } from "./git-config.ts"
import { clearChromiumLock, ownerOf } from "./locks.ts"
import { writePersona } from "./persona.ts"
import { credentialsOf, withoutCredentials } from "./repository.ts"
import type { ServiceState } from "./service-state.ts"
import { servicesOf } from "./service-table.ts"
import { createServices } from "./services.ts"
import { lifeOf } from "./snapshot.ts"
import { plannedDirectory, prepareAll } from "./workspace.ts"

export type PartState = "starting" | "ready" | "degraded" | "failed" | "off"

export interface HostOptions {
  readonly config: Config
  /** How this program is started, for git to start it too. */
  readonly self: readonly string[]
  readonly apiToken: string
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
}

export interface Place {
  /** Where the agent works. */
  readonly directory: string
  readonly instructionFiles: readonly string[]
}

export interface Host {
  /** Starts everything at once; resolves when the agent's variables are known. */
  readonly start: () => Promise<void>
  /** Resolves when repositories and persona are as they will be; a failure among them is told, not thrown. */
  readonly place: () => Promise<Place>
  /** More variables for the agent. */
  readonly agentVariables: () => Readonly<Record<string, string>>
  readonly services: { readonly start: () => Promise<void>; readonly stop: () => Promise<void> }
  readonly stop: () => Promise<void>
}

const LIFE = "host.life"
const PULLED = "host.pulled-at"

export const createHost = (options: HostOptions): Host => {
  const { config, clock, log, memory, setPart } = options
  const repositories = config.repositories
  const credentials = credentialsOf(repositories, config.githubToken)
  const home = config.environment["HOME"] || "/root"
  const environment = { ...options.environment, HOME: home }
  const placed = Promise.withResolvers<Place>()
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

  const prepare = async (): Promise<Place> => {
    const restored = isRestored()
    if (restored) log.info("host.restored", { why: "this is another boot than the last" })
    setPart("workspace", "starting")
    if (config.command === "run" || repositories.length > 0) {
      await attempt("git.not-configured", () =>
        writeGitConfig(
          join(config.stateDir, "git"),
          {
            userName: config.gitUserName,
            userEmail: config.gitUserEmail,
            origins: credentials.map(({ origin }) => origin),
            helper: [...options.self, "git-credential", "--state-dir", config.stateDir]
              .map(shellQuoted)
              .join(" "),
          },
          { environment, log },
        ),
      )
    }
    const { prepared, problems } = await prepareAll(repositories, {
      workDir: config.workDir,
      pull: repositories.length > 0 && mayPull(restored),
      environment,
      log,
      onProgress: (words) => setPart("workspace", "starting", words),
    })
    const instructionFiles = await attempt("persona.not-written", () =>
      writePersona(
        join(config.stateDir, "persona"),
        config.personaFiles ?? [],
        prepared.map(({ repository, directory: at }) => ({
          ...repository,
          url: withoutCredentials(repository.url),
          directory: at,
        })),
      ),
    )
    if (problems.length > 0) setPart("workspace", "degraded", problems.join("; "))
    else setPart("workspace", "ready")
    const isFirst = prepared.some(({ directory: at }) => at === directory)
    return {
      directory: isFirst ? directory : config.workDir,
      instructionFiles: instructionFiles ?? [],
    }
  }

  const attempt = async <Value>(
    event: string,
    run: () => Promise<Value>,
  ): Promise<Value | undefined> => {
    try {
      return await run()
    } catch (error) {
      log.warn(event, { error: describeError(error) })
      return undefined
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
      void prepare().then(placed.resolve, placed.reject)
    },
    place: () => placed.promise,
    agentVariables: () => (control ? { SANDPIPER_CONTROL_URL: control.url } : {}),
    services,
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

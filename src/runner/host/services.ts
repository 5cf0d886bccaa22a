/** Supervises the sandbox's services: starts them, waits for readiness, restarts after crashes, ends them all. */
import { createRing, type Ring } from "../../lib/ring.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { acceptsConnections, clearCodeServerLocks, clearDisplayLock } from "./stale-locks.ts"
import { carriersOf, descendantsOf, endAll, listensOn, listProcesses } from "./processes.ts"
import type { ServicePolicy, ServiceState } from "./service-state.ts"
import { displayNumber, type Service, type ServiceGroup } from "./service-table.ts"
import { type OutputReceiver, type Supervised, supervise } from "./supervise.ts"

export interface ServicesOptions {
  readonly services: readonly Service[]
  readonly display: string
  readonly home: string
  readonly cwd: string
  /** The environment of the services; contains none of the runner's own variables. */
  readonly environment: Readonly<Record<string, string>>
  /** The user they run as if it is not the runner's own. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** Marks the processes of this runner's services, so that the next runner can find and end them. */
  readonly owner: string
  readonly clock: Clock
  readonly log: Log
  readonly onChange: (name: string, state: ServiceState) => void
  readonly policy?: ServicePolicy
}

/** A program that is not installed, and the group of services that needs it. */
export interface MissingProgram {
  readonly group: ServiceGroup
  readonly program: string
}

export interface Services {
  readonly start: () => Promise<void>
  /** Searches PATH, so it can be called before `start`. */
  readonly missing: () => readonly MissingProgram[]
  /** The last lines of a service's output. */
  readonly output: (name: string) => readonly string[]
  readonly stop: () => Promise<void>
}

/** The state directory of the runner that has started the process. */
export const OWNER = "SANDPIPER_SERVICE_OF"
const START_LIMIT_MS = 30_000
const RING = { lines: 200, lineLength: 500 }

export const createServices = (options: ServicesOptions): Services => {
  const { clock } = options
  const supervised = new Map<string, SupervisedService>()
  const whenReady = (name: string): Promise<void> =>
    supervised.get(name)?.ready() ?? Promise.resolve()
  for (const service of options.services) {
    supervised.set(service.name, superviseService(service, options, whenReady))
  }
  /** Also finds processes that have left their group and their parent. */
  const findOwned = () => carriersOf(OWNER, options.owner, listProcesses())
  return {
    start: async () => {
      const ended = await endAll(findOwned, clock)
      if (ended > 0) options.log.warn("services.stale-ended", { processes: ended })
      for (const one of supervised.values()) one.start()
    },
    missing: () =>
      options.services
        .filter((service) => service.optional !== true && !isInstalled(service, options))
        .map(({ group, command: [program] }) => ({ group, program })),
    output: (name) => supervised.get(name)?.output.read() ?? [],
    stop: async () => {
      await Promise.all([...supervised.values()].map((one) => one.stop()))
      await endAll(findOwned, clock)
    },
  }
}

interface SupervisedService extends Supervised {
  readonly output: Ring
}

const superviseService = (
  service: Service,
  options: ServicesOptions,
  whenReady: (name: string) => Promise<void>,
): SupervisedService => {
  const { clock, policy } = options
  const log = options.log.child({ service: service.name })
  const output = createRing(RING)

  const report = (next: ServiceState) => {
    options.onChange(service.name, next)
    if (next.phase === "resting" || next.phase === "failed") {
      log.warn("service.down", { why: next.why, output: output.read(5) })
    } else {
      log.info(`service.${next.phase}`, "why" in next ? { why: next.why } : {})
    }
  }

  const clearLocks = async () => {
    const removed =
      service.locks === "display"
        ? await clearDisplayLock(displayNumber(options.display))
        : service.locks === "code-server"
          ? await clearCodeServerLocks(options.home)
          : []
    if (removed.length > 0) log.info("service.stale-locks-removed", { removed })
  }

  const supervised = supervise({
    missing: () => (isInstalled(service, options) ? undefined : service.command[0]),
    prepare: async () => {
      if (service.needs !== undefined) await whenReady(service.needs)
      await clearLocks()
    },
    spawn: () =>
      Bun.spawn([...service.command], {
        cwd: options.cwd,
        env: { ...options.environment, DISPLAY: options.display, [OWNER]: options.owner },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        // A process group of its own, so that its children end with it.
        detached: true,
        ...(options.user && { uid: options.user.uid, gid: options.user.gid }),
      }),
    isReady: (pid) => isListening(service, pid),
    startLimitMs: START_LIMIT_MS,
    output: () => linesTo(output.push),
    onChange: report,
    clock,
    ...(policy && { policy }),
  })
  return { ...supervised, output }
}

const isInstalled = (
  { command: [program] }: Service,
  { environment }: Pick<ServicesOptions, "environment">,
): boolean => Bun.which(program, { PATH: environment["PATH"] ?? "" }) !== null

/** Ready means that the started process or a descendant of it listens, not another process on the same port. */
const isListening = async ({ answersOn }: Service, pid: number): Promise<boolean> => {
  if (answersOn === undefined) return true
  if ("socket" in answersOn) return acceptsConnections(answersOn.socket)
  const { port } = answersOn
  return (
    listensOn(pid, port) ||
    descendantsOf(pid, listProcesses()).some((row) => listensOn(row.pid, port))
  )
}

const linesTo = (take: (line: string) => void): OutputReceiver => {
  const decoder = new TextDecoder()
  let rest = ""
  return {
    push: (bytes) => {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) take(line)
    },
    end: () => {
      if (rest !== "") take(rest)
    },
  }
}

/** Services that the agent or a client starts by name: dev servers, workers, databases. Each is a supervised shell command. */
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import { freePortLike } from "../../../lib/free-port.ts"
import { createInOrder } from "../../../lib/in-order.ts"
import type { Log } from "../../../lib/log.ts"
import { ApiError } from "../../gateway/api-error.ts"
import { carriersOf, descendantsOf, endAll, listProcesses, portsOf } from "../../host/processes.ts"
import type { ServicePolicy, ServiceState } from "../../host/service-state.ts"
import { type Supervised, supervise } from "../../host/supervise.ts"
import { SecretsError } from "../secrets-error.ts"
import { insideWorkspace } from "../workspace-files.ts"
import { openServiceLog, type ServiceLog } from "./service-log.ts"
import type { ServiceSpec, ServiceStore, StoredService } from "./service-store.ts"

export interface AppServicesOptions {
  readonly store: ServiceStore
  readonly logDir: string
  readonly workDir: string
  /** The agent's environment; contains none of the runner's own variables. */
  readonly environment: Readonly<Record<string, string>>
  /** The agent's user if it is not the runner's own. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
  /** Marks the processes, so that the next runner finds and ends them. */
  readonly owner: string
  readonly clock: Clock
  readonly log: Log
  readonly policy?: ServicePolicy
  /** The value of FREE_PORT if no other program uses this port. */
  readonly usualPort?: number
}

export type ServiceStatus = "starting" | "running" | "restarting" | "failed" | "stopped"

export interface ServiceView {
  readonly name: string
  readonly command: string
  readonly cwd: string
  readonly port?: number
  /** The ports on which its processes listen. */
  readonly listening: readonly number[]
  readonly pid: number | null
  readonly status: ServiceStatus
  readonly startedAt: string | null
  readonly restarts: number
  /** Why it is restarting or has failed. */
  readonly why?: string
}

export interface AppServices {
  readonly list: () => readonly ServiceView[]
  readonly find: (name: string) => ServiceView | undefined
  /** Replaces a service of the same name: its processes have ended when the new ones start. */
  readonly start: (spec: ServiceSpec) => Promise<ServiceView>
  readonly restart: (name: string) => Promise<ServiceView>
  /** Replaces the list of services that should run, without starting them. */
  readonly replaceAll: (specs: readonly ServiceSpec[]) => void
  /** Resolves when no process of it is left. False if there is no service of this name. */
  readonly stop: (name: string) => Promise<boolean>
  readonly logOf: (name: string) => ServiceLog | undefined
  /** Starts all services that were running before; a failure of one is in its log and its status. */
  readonly resume: () => Promise<void>
  /** Ends the processes and keeps the services, for a snapshot or the end of the runner. */
  readonly suspend: () => Promise<void>
}

/** The state directory of the runner that has started the process. */
export const OWNER = "SANDPIPER_APP_SERVICES_OF"
const NAME = "SANDPIPER_APP_SERVICE"
const MOST_SERVICES = 128

/**
 * A command that names this variable gets a port that is free at each start: the one of its start before if that is free, at first
 * the usual one. A sandbox can share the ports of its machine with others.
 */
export const FREE_PORT = "SANDPIPER_FREE_PORT"
const USUAL_PORT = 3000

interface Running {
  readonly spec: ServiceSpec
  readonly supervised: Supervised
}

export const createAppServices = (options: AppServicesOptions): AppServices => {
  const { store, clock } = options
  const running = new Map<string, Running>()
  const logs = new Map<string, ServiceLog>()
  const queues = new Map<string, ReturnType<typeof createInOrder>>()
  const givenPorts = new Map<string, number>()

  /** Starts and stops of one service run one after another. */
  const inOrder = <Result>(name: string, work: () => Promise<Result>): Promise<Result> => {
    const queue = queues.get(name) ?? createInOrder()
    queues.set(name, queue)
    return queue(work)
  }

  const stored = (name: string): StoredService | undefined =>
    store.all().find((one) => one.name === name)

  const logOf = (name: string): ServiceLog => {
    const known = logs.get(name) ?? openServiceLog(join(options.logDir, `${name}.log`))
    logs.set(name, known)
    return known
  }

  /** Also processes that have left the group, such as daemons. */
  const processesOfAll = () => carriersOf(OWNER, options.owner, listProcesses())
  const processesOf = (name: string) => carriersOf(NAME, name, processesOfAll())

  const endProcesses = async (name: string): Promise<void> => {
    // A process that is ending shows no environment, but has its ports for some moments more.
    const known = running.has(name) ? processesOf(name) : []
    await running.get(name)?.supervised.stop()
    running.delete(name)
    await endAll(() => [...known, ...processesOf(name)], clock)
  }

  const portFor = ({ name, command }: ServiceSpec): Readonly<Record<string, string>> => {
    if (!command.includes(FREE_PORT)) return {}
    const port = freePortLike(givenPorts.get(name) ?? options.usualPort ?? USUAL_PORT)
    givenPorts.set(name, port)
    return { [FREE_PORT]: String(port) }
  }

  const launch = async (spec: ServiceSpec): Promise<void> => {
    const cwd = await folderOf(options.workDir, spec.cwd)
    const log = options.log.child({ service: spec.name })
    const output = logOf(spec.name)
    const note = (text: string) => void output.append(Buffer.from(`[sandpiper] ${text}\n`))
    const supervised = supervise({
      spawn: () =>
        Bun.spawn(["/bin/sh", "-c", spec.command], {
          cwd,
          env: {
            ...options.environment,
            ...(spec.port !== undefined && { PORT: String(spec.port) }),
            ...portFor(spec),
            [OWNER]: options.owner,
            [NAME]: spec.name,
          },
          stdin: "ignore",
          stdout: "pipe",
          stderr: "pipe",
          detached: true,
          ...(options.user && { uid: options.user.uid, gid: options.user.gid }),
        }),
      isReady: (pid) => spec.port === undefined || treePorts(pid).includes(spec.port),
      mayFinish: true,
      output: () => ({ push: output.append, end: () => {} }),
      onChange: (state) => {
        log.info(`app-service.${state.phase}`, "why" in state ? { why: state.why } : {})
        if (state.phase === "resting") note(`${state.why}; it is started again`)
        if (state.phase === "failed") note(state.why)
      },
      clock,
      ...(options.policy && { policy: options.policy }),
    })
    running.set(spec.name, { spec, supervised })
    supervised.start()
  }

  const start = (spec: ServiceSpec): Promise<ServiceView> =>
    inOrder(spec.name, async () => {
      await folderOf(options.workDir, spec.cwd)
      if (stored(spec.name) === undefined) makeRoom()
      await endProcesses(spec.name)
      store.save({ ...spec, wanted: true })
      await launch(spec)
      return viewOf({ ...spec, wanted: true })
    })

  /** Forgets the oldest service that is stopped. */
  const makeRoom = () => {
    const all = store.all()
    if (all.length < MOST_SERVICES) return
    const idle = all.find(({ wanted }) => !wanted)
    if (idle === undefined) {
      throw new ApiError(
        409,
        "too-many",
        `there are ${MOST_SERVICES} services already: stop one first`,
      )
    }
    store.remove(idle.name)
    void logOf(idle.name).remove()
    logs.delete(idle.name)
  }

  const viewOf = (
    { name, command, cwd, port }: StoredService,
    processes = listProcesses(),
  ): ServiceView => {
    const supervised = running.get(name)?.supervised
    const state: ServiceState = supervised?.state() ?? { phase: "stopped" }
    const pid = supervised?.pid()
    return {
      name,
      command,
      cwd,
      ...(port !== undefined && { port }),
      listening: pid === undefined ? [] : treePorts(pid, processes),
      pid: pid ?? null,
      status: statusOf(state),
      startedAt: "startedAt" in state ? new Date(state.startedAt).toISOString() : null,
      restarts: "tries" in state ? state.tries.restarts : 0,
      ...("why" in state && { why: state.why }),
    }
  }

  return {
    list: () => {
      const processes = listProcesses()
      return store.all().map((one) => viewOf(one, processes))
    },
    find: (name) => {
      const one = stored(name)
      return one && viewOf(one)
    },
    start,
    restart: async (name) => {
      const one = stored(name)
      if (one === undefined) throw new ApiError(404, "not-found", `there is no service ${name}`)
      return start(one)
    },
    replaceAll: (specs) => {
      const names = new Set(specs.map(({ name }) => name))
      for (const { name } of store.all()) {
        if (!names.has(name) && !running.has(name)) store.remove(name)
      }
      for (const spec of specs) store.save({ ...spec, wanted: true })
    },
    stop: (name) =>
      inOrder(name, async () => {
        const one = stored(name)
        if (one === undefined) return false
        store.save({ ...one, wanted: false })
        await endProcesses(name)
        return true
      }),
    logOf: (name) => (stored(name) === undefined ? undefined : logOf(name)),
    resume: async () => {
      // Processes of services that this runner has started itself are kept.
      const kept = new Set([...running.keys()].flatMap(processesOf).map(({ pid }) => pid))
      const stale = await endAll(() => processesOfAll().filter(({ pid }) => !kept.has(pid)), clock)
      if (stale > 0) options.log.warn("app-services.stale-ended", { processes: stale })
      for (const one of store.all()) {
        if (!one.wanted || running.has(one.name)) continue
        await inOrder(one.name, () => launch(one)).catch((error: unknown) =>
          options.log.warn("app-service.not-started", {
            service: one.name,
            why: error instanceof Error ? error.message : String(error),
          }),
        )
      }
    },
    suspend: async () => {
      const known = processesOfAll()
      const names = [...running.keys()]
      await Promise.all(
        names.map((name) =>
          inOrder(name, async () => {
            await running.get(name)?.supervised.stop()
            running.delete(name)
          }),
        ),
      )
      await endAll(() => [...known, ...processesOfAll()], clock)
      // A snapshot has the last words of each service.
      await Promise.all([...logs.values()].map((log) => log.settled()))
    },
  }
}

const treePorts = (pid: number, processes = listProcesses()): readonly number[] =>
  portsOf([pid, ...descendantsOf(pid, processes).map((row) => row.pid)])

const folderOf = async (workDir: string, cwd: string): Promise<string> => {
  try {
    return await insideWorkspace(workDir, cwd)
  } catch (error) {
    if (error instanceof SecretsError) throw new ApiError(400, "bad-input", `cwd: ${error.message}`)
    throw error
  }
}

const statusOf = ({ phase }: ServiceState): ServiceStatus => {
  switch (phase) {
    case "starting":
      return "starting"
    case "ready":
      return "running"
    case "resting":
      return "restarting"
    case "failed":
    case "off":
      return "failed"
    case "idle":
    case "stopped":
      return "stopped"
  }
}

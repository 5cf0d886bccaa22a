/** Runners of sessions that this hub starts as processes of its own machine. */
import type { Subprocess } from "bun"
import { chmod, mkdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import { gatewayKey, hashOf } from "../../keys.ts"
import type { Session } from "../../session/session.ts"
import { childEnvironment } from "../../../settings/reaches.ts"

export interface RunnerProcessesOptions {
  readonly stateDir: string
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly master: string
  readonly create: (session: string) => Session
  readonly runnerUrl: (session: string) => string
  /** A runner has ended by itself. */
  readonly ended: (session: string, why: string) => Promise<void>
  readonly clock: Clock
  readonly log: Log
}

export interface LocalRunner {
  readonly id: string
  readonly parent?: string | undefined
  readonly workDir: string
  readonly model: string | null
}

export interface RunnerProcesses {
  /** Where the files of a session are: its state, its log, and its workspace if it has one of its own. */
  readonly folderOf: (session: string) => string
  readonly makeFolders: (session: string) => Promise<void>
  readonly start: (runner: LocalRunner) => Promise<void>
  readonly stop: (session: string) => Promise<void>
  /** Stops every runner, and starts none any more. */
  readonly stopAll: () => Promise<void>
}

type Child = Subprocess<"pipe", "ignore", Bun.BunFile>

const STOP_MS = 10_000

export const createRunnerProcesses = (options: RunnerProcessesOptions): RunnerProcesses => {
  const processes = new Map<string, Child>()
  let stopped = false
  const folderOf = (id: string) => join(options.stateDir, "children", encodeURIComponent(id))

  const watch = async (id: string, child: Child) => {
    const exitCode = await child.exited
    if (stopped || processes.get(id) !== child) return
    processes.delete(id)
    options.log.info("child.ended", { child: id, exitCode })
    await options.ended(id, `its runner ended with exit code ${exitCode}`)
  }

  const stop = async (id: string) => {
    const child = processes.get(id)
    processes.delete(id)
    if (!child) return
    child.kill("SIGTERM")
    const cancel = options.clock.after(STOP_MS, () => child.kill("SIGKILL"))
    await child.exited
    cancel()
  }

  return {
    folderOf,
    makeFolders: async (id) => {
      // A user that the agent runs as must be able to reach its workspace; it cannot list these folders.
      await mkdir(folderOf(id), { recursive: true, mode: 0o711 })
      await chmod(dirname(folderOf(id)), 0o711)
      await mkdir(join(folderOf(id), "state"), { mode: 0o700 })
    },
    start: async ({ id, parent, workDir, model }) => {
      const session = options.create(id)
      const token = crypto.randomUUID()
      session.setRunnerToken(await hashOf(token))
      const folder = folderOf(id)
      const child = Bun.spawn([...options.self, "run"], {
        cwd: folder,
        env: {
          ...childEnvironment(options.environment),
          DO_WS_URL: options.runnerUrl(id),
          RUNNER_TOKEN: token,
          SESSION_ID: id,
          ...(parent !== undefined && { PARENT_SESSION_ID: parent }),
          JWT_SECRET: await gatewayKey(options.master, id, session.generation()),
          WORK_DIR: workDir,
          SANDPIPER_STATE_DIR: join(folder, "state"),
          GATEWAY_HOST: "127.0.0.1",
          GATEWAY_PORT: "0",
          OPENCODE_URL: "http://127.0.0.1:0",
          // The child reads the end of this pipe when this process dies, even by SIGKILL, and then stops.
          STOP_WITH_STDIN: "1",
          ...(model !== null && { SANDPIPER_MODEL: model }),
        },
        stdin: "pipe",
        stdout: "ignore",
        stderr: Bun.file(join(folder, "runner.log")),
      })
      processes.set(id, child)
      void watch(id, child)
    },
    stop,
    stopAll: async () => {
      stopped = true
      await Promise.all([...processes.keys()].map(stop))
    },
  }
}

/** Replicas of the compiled `serve` on one PostgreSQL and one hub of Durable Objects. Their sandboxes have no agent. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { watchForOrphans } from "../../src/fleet/providers/local-orphans.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { silentLog } from "./log.ts"
import { startPostgres } from "../fleet/kit/postgres.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { type Replica, startReplica } from "./replica.ts"
import { requireBinary } from "./runner.ts"
import { freePort } from "./free-port.ts"

export interface ReplicaSet {
  /** The home of every process of the set. */
  readonly home: string
  readonly databaseUrl: string
  /** The hub sends its reports to the first one. */
  readonly replicas: readonly Replica[]
  /** A request of the operator. */
  readonly call: (replica: Replica, method: string, path: string) => Promise<Response>
  /** The names of the sandboxes that exist. */
  readonly boxes: () => readonly string[]
  /** Ends the replicas, then their sandboxes, which outlive them. */
  readonly stop: () => Promise<void>
}

const FLEET_KEY = "a key of the fleet for tests only"
const CALL_MS = 150_000

export const startReplicaSet = async (
  size: number,
  settings: Readonly<Record<string, string>> = {},
): Promise<ReplicaSet> => {
  const binary = requireBinary()
  const folder = await mkdtemp(join(tmpdir(), "replicas-"))
  const home = join(folder, "home")
  const state = join(folder, "state")
  const root = join(state, "fleet", "local")
  const replicas: Replica[] = []
  const ends: (() => Promise<unknown>)[] = []
  const boxes = () => {
    const place = join(root, "boxes")
    return existsSync(place) ? readdirSync(place) : []
  }
  const stop = async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  }
  ends.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }))
  try {
    await mkdir(home)
    const agent = join(folder, "no-agent")
    await writeFile(agent, "#!/bin/sh\nexec sleep 100000\n")
    await chmod(agent, 0o755)
    const postgres = await startPostgres()
    ends.push(postgres.stop)
    const ports = Array.from({ length: size }, () => freePort())
    const workerd = await startWorkerd(await bundleWorker(), {
      FLEET_URL: `http://127.0.0.1:${ports[0]}`,
      FLEET_KEY,
      HUB_GATEWAY_SECRET: "a gateway secret of the tests",
    })
    ends.push(workerd.stop, async () => {
      const provider = createLocalProvider({ root, self: [binary], clock: systemClock })
      for (const name of boxes()) await provider.terminate(name)
      // A next owner: the watchdogs of the killed replicas end.
      const next = watchForOrphans({
        root,
        seconds: 0,
        command: [],
        environment: {},
        clock: systemClock,
        log: silentLog,
      })
      await next.leave()
    })
    const spawn = (port: number, stderr: Bun.BunFile): Bun.Subprocess =>
      Bun.spawn([binary, "serve", "--state-dir", state], {
        cwd: folder,
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: home,
          SANDBOX_PROVIDER: "local",
          SANDBOX_ISOLATION: "none",
          DATABASE_URL: postgres.url,
          HUB_URL: workerd.url,
          HUB_PORT: String(port),
          FLEET_KEY,
          // The agent plays no part, and twenty of them would need ten gigabytes.
          OPENCODE_BIN: agent,
          SANDPIPER_LOCAL_MODELS: "none",
          LOG_LEVEL: "warn",
          ...settings,
        },
        stdin: "ignore",
        stdout: "ignore",
        stderr,
      })
    ends.push(() => Promise.all(replicas.map((replica) => replica.kill())))
    for (const port of ports) {
      const errors = join(folder, `errors-${port}`)
      replicas.push(startReplica(port, errors, (file) => spawn(port, file)))
    }
    await Promise.all(replicas.map((replica) => replica.untilUp()))
    return {
      home,
      databaseUrl: postgres.url,
      replicas,
      boxes,
      stop,
      call: ({ port }, method, path) => {
        const token = readFileSync(join(state, "fleet", "operator-token"), "utf8").trim()
        return fetch(`http://127.0.0.1:${port}${path}`, {
          method,
          headers: { authorization: `Bearer ${token}` },
          signal: AbortSignal.timeout(CALL_MS),
        })
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

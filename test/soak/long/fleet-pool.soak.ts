/**
 * Three replicas of `serve` on one PostgreSQL and one hub of Durable Objects with a warm pool, killed again and again while
 * threads claim its sandboxes: no sandbox has two threads, no thread has two, and none is left over. It runs by hand
 * (`bun test ./test/soak/long/fleet-pool.soak.ts`): after the kills the pool is not always full again within two minutes.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isReady } from "../../../src/fleet/core/pool.ts"
import { createLocalProvider } from "../../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../../src/fleet/store/postgres-store.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { startPostgres, type TestPostgres } from "../../fleet/kit/postgres.ts"
import { bundleWorker, startWorkerd, type Workerd } from "../../hub/kit/workerd.ts"
import { type Replica, startReplica } from "../../kit/replica.ts"
import { requireBinary } from "../../kit/runner.ts"
import { stablePort } from "../../kit/stable-port.ts"
import { untilTrue } from "../../kit/until-true.ts"

const REPLICAS = 3
const THREADS = 12
const POOL = 3
/** Enough to meet every step of a claim; endless kills would keep a slow machine from ever making a sandbox. */
const KILLS = 24
const FLEET_KEY = "a key of the fleet for tests only"

let folder = ""
let postgres: TestPostgres
let store: FleetStore
let workerd: Workerd
const replicas: Replica[] = []

const spawn = (port: number, stderr: Bun.BunFile): Bun.Subprocess =>
  Bun.spawn([requireBinary(), "serve", "--state-dir", join(folder, "state")], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: join(folder, "home"),
      SANDBOX_PROVIDER: "local",
      SANDBOX_ISOLATION: "none",
      SANDBOX_POOL: String(POOL),
      DATABASE_URL: postgres.url,
      HUB_URL: workerd.url,
      HUB_PORT: String(port),
      FLEET_KEY,
      // The agent plays no part here.
      OPENCODE_BIN: join(folder, "no-agent"),
      SANDPIPER_LOCAL_MODELS: "none",
      LOG_LEVEL: "warn",
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr,
  })

const boxes = () => {
  const place = join(folder, "state", "fleet", "local", "boxes")
  return existsSync(place) ? readdirSync(place) : []
}
const sweep = async () => {
  const token = readFileSync(join(folder, "state", "fleet", "operator-token"), "utf8").trim()
  const { port } = replicas[0] as Replica
  const response = await fetch(`http://127.0.0.1:${port}/api/sweep`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
  })
  await response.body?.cancel()
}
/** Repeated until a replica has answered, as a client does whose server died. */
const resolve = async (thread: string, first: number): Promise<Record<string, unknown>> => {
  const token = readFileSync(join(folder, "state", "fleet", "operator-token"), "utf8").trim()
  for (let attempt = first; ; attempt += 1) {
    const { port } = replicas[attempt % REPLICAS] as Replica
    const response = await fetch(`http://127.0.0.1:${port}/api/threads/${thread}/resolve?wait=1`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(150_000),
    }).catch(() => undefined)
    const body = (await response?.json().catch(() => undefined)) as
      | Record<string, unknown>
      | undefined
    if (response?.ok === true && body?.["status"] === "running") return body
    await Bun.sleep(100)
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "fleet-pool-"))
  await mkdir(join(folder, "home"))
  await writeFile(join(folder, "no-agent"), "#!/bin/sh\nexec sleep 100000\n")
  await chmod(join(folder, "no-agent"), 0o755)
  postgres = await startPostgres()
  store = await openPostgresStore(postgres.url)
  const ports = Array.from({ length: REPLICAS }, stablePort)
  workerd = await startWorkerd(await bundleWorker(), {
    FLEET_URL: `http://127.0.0.1:${ports[0]}`,
    FLEET_KEY,
    HUB_GATEWAY_SECRET: "a gateway secret of the tests",
  })
  for (const port of ports)
    replicas.push(
      startReplica(port, join(folder, `errors-${port}`), (errors) => spawn(port, errors)),
    )
  for (const replica of replicas) await replica.untilUp()
}, 240_000)

afterAll(async () => {
  for (const replica of replicas) await replica.kill()
  // Sandboxes outlive the replicas.
  const root = join(folder, "state", "fleet", "local")
  const provider = createLocalProvider({ root, self: [requireBinary()], clock: systemClock })
  for (const name of boxes()) await provider.terminate(name)
  await store.close()
  await workerd.stop()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
}, 60_000)

test("replicas that are killed while threads claim warm sandboxes leave one sandbox for each thread and a full pool", async () => {
  const isFull = async () =>
    (await store.pooled()).filter(({ kind, life }) => kind === "pool" && isReady(life)).length ===
    POOL
  await untilTrue(isFull, "full pool", 120_000)
  const kills = (async () => {
    for (let kill = 0; kill < KILLS; kill += 1) {
      // The first replica gets the hub's reports: it is killed, too, and comes back at the same port.
      const replica = replicas[kill % REPLICAS] as Replica
      await replica.restart()
      await replica.untilUp()
    }
  })()
  const asked = Promise.all(
    Array.from({ length: THREADS }, (_, index) => resolve(`t${index}`, index)),
  )
  const [answers] = await Promise.all([asked, kills])
  const ids = answers.map((answer) => String(answer["sessionId"]))
  expect(new Set(ids).size).toBe(THREADS)
  expect(ids.filter((id) => id.startsWith("warm-")).length).toBeGreaterThan(0)
  // A repeated request finds the same session.
  for (const [index, id] of ids.entries())
    expect((await resolve(`t${index}`, index))["sessionId"]).toBe(id)
  await untilTrue(isFull, "full pool again", 120_000)
  await untilTrue(
    async () => (await store.pooled()).every(({ kind }) => kind === "pool"),
    "end of every claim",
    120_000,
  )
  // Strays of killed creates are ended by the machine and the sweep, which otherwise runs every five minutes.
  const known = async () => (await store.list()).flatMap(({ life }) => life.ref ?? [])
  await untilTrue(
    async () => {
      await sweep()
      return boxes().toSorted().join() === (await known()).toSorted().join()
    },
    "sandbox for each session and no other",
    120_000,
  )
  expect(boxes()).toHaveLength(THREADS + POOL)
}, 600_000)

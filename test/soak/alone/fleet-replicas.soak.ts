/**
 * Five replicas of `serve` on one PostgreSQL and one hub of Durable Objects, killed again and again while they start and
 * save the sandboxes of twenty threads: each thread has one sandbox, and none is left over.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startPostgres, type TestPostgres } from "../../fleet/kit/postgres.ts"
import { bundleWorker, startWorkerd, type Workerd } from "../../hub/kit/workerd.ts"
import { type Replica, startReplica } from "../../kit/replica.ts"
import { requireBinary } from "../../kit/runner.ts"
import { stablePort } from "../../kit/stable-port.ts"
import { untilTrue } from "../../kit/until-true.ts"

const REPLICAS = 5
const THREADS = 20
const KILLS = 30
const FLEET_KEY = "a key of the fleet for tests only"
const seed = Number(process.env["FLEET_SEED"] ?? Math.floor(Math.random() * 1e9))

let folder = ""
let postgres: TestPostgres
let workerd: Workerd
const replicas: Replica[] = []

/** A linear congruential generator: the same seed gives the same choices. */
const random = (() => {
  let state = seed
  return (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % below
  }
})()

const spawn = (port: number, stderr: Bun.BunFile): Bun.Subprocess =>
  Bun.spawn([requireBinary(), "serve", "--state-dir", join(folder, "state")], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: join(folder, "home"),
      SANDBOX_PROVIDER: "local",
      SANDBOX_ISOLATION: "none",
      DATABASE_URL: postgres.url,
      HUB_URL: workerd.url,
      HUB_PORT: String(port),
      FLEET_KEY,
      // The agent plays no part here, and twenty of them would need ten gigabytes.
      OPENCODE_BIN: join(folder, "no-agent"),
      SANDPIPER_LOCAL_MODELS: "none",
      LOG_LEVEL: "warn",
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr,
  })

const call = async (
  port: number,
  method: string,
  path: string,
): Promise<Record<string, unknown>> => {
  const token = readFileSync(join(folder, "state", "fleet", "operator-token"), "utf8").trim()
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(150_000),
  })
  return (await response.json()) as Record<string, unknown>
}
const someReplica = () => replicas[random(REPLICAS)] as Replica
const threadName = (index: number) => `C${index}:1700`

interface Runner {
  readonly pid: number
  readonly session: string
}

/** The runners of this test that exist: a sandbox is one such process. */
const runners = (): readonly Runner[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
        const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")
        const ours = variables.includes(`HOME=${join(folder, "home")}`)
        const session = variables.find((one) => one.startsWith("SESSION_ID="))
        return ours && words[1] === "run" && session
          ? [{ pid: Number(pid), session: session.slice("SESSION_ID=".length) }]
          : []
      } catch {
        return []
      }
    })
const runningSessions = (): readonly string[] => runners().map(({ session }) => session)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "replicas-"))
  await mkdir(join(folder, "home"))
  await writeFile(join(folder, "no-agent"), "#!/bin/sh\nexec sleep 100000\n")
  await chmod(join(folder, "no-agent"), 0o755)
  postgres = await startPostgres()
  const ports = Array.from({ length: REPLICAS }, stablePort)
  workerd = await startWorkerd(await bundleWorker(), {
    FLEET_URL: `http://127.0.0.1:${ports[0]}`,
    FLEET_KEY,
  })
  for (const port of ports) {
    const errors = join(folder, `errors-${port}`)
    const replica = startReplica(port, errors, (file) => spawn(port, file))
    replicas.push(replica)
    // The first one makes the token and the tables.
    await replica.untilUp()
  }
}, 300_000)

afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.kill()))
  // After a failure sandboxes are left; they outlive the replicas.
  for (const { pid } of runners()) process.kill(pid, "SIGKILL")
  await workerd.stop()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true })
}, 60_000)

test(`after ${KILLS} kills of ${REPLICAS} replicas each of ${THREADS} threads has one sandbox (seed ${seed})`, async () => {
  const asked: Promise<unknown>[] = []
  const ask = (path: string) =>
    void asked.push(call(someReplica().port, "POST", path).catch(() => undefined))
  for (let round = 0; round < KILLS; round++) {
    for (let index = 0; index < 4; index++) {
      const thread = encodeURIComponent(threadName(random(THREADS)))
      ask(`/api/threads/${thread}/resolve`)
    }
    await Bun.sleep(random(250))
    await someReplica().restart()
    // Two may be away at the same time, never all of them.
    if (round % 2 === 1) await Promise.all(replicas.map((replica) => replica.untilUp()))
  }
  await Promise.all(replicas.map((replica) => replica.untilUp()))
  await Promise.all(asked)

  const sessions: string[] = []
  for (let index = 0; index < THREADS; index++) {
    const path = `/api/threads/${encodeURIComponent(threadName(index))}/resolve?wait=1`
    let answer: Record<string, unknown> = {}
    await untilTrue(
      async () => {
        answer = await call(someReplica().port, "POST", path)
        return answer["status"] === "running"
      },
      `sandbox of thread ${index}: ${JSON.stringify(answer)}`,
      240_000,
    )
    sessions.push(String(answer["sessionId"]))
  }
  // Strays of killed creates are ended by the machine and the sweep, not by luck: the sweep runs once.
  await call(someReplica().port, "POST", "/api/sweep")
  await untilTrue(
    () => runningSessions().length === THREADS,
    `one runner a thread, not ${runningSessions().length}`,
    120_000,
  )
  expect(runningSessions().toSorted()).toEqual(sessions.toSorted())

  for (const session of sessions)
    await call(someReplica().port, "POST", `/api/sandbox/${session}/terminate?wait=1`)
  await untilTrue(() => runningSessions().length === 0, "end of all sandboxes", 120_000)
  const { sandboxes } = await call(someReplica().port, "GET", "/api/sandboxes")
  expect((sandboxes as readonly { status: string }[]).map(({ status }) => status)).toEqual(
    sessions.map(() => "terminated"),
  )
}, 900_000)

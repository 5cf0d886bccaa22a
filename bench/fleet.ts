/**
 * Times of a sandbox's life on this machine: isolated local sandboxes beside processes without isolation and beside podman,
 * in the same run. Then 50 isolated sandboxes at once, with a stand-in for OpenCode. Needs root, bubblewrap and passt.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ImageChoice, SandboxProvider, SandboxSpec } from "../src/fleet/providers/contract.ts"
import { createDockerProvider } from "../src/fleet/providers/docker.ts"
import { createLocalProvider } from "../src/fleet/providers/local.ts"
import { loopbackPorts } from "../src/fleet/providers/local-isolated.ts"
import { probeMachine } from "../src/fleet/providers/local-machine.ts"
import { systemClock } from "../src/lib/clock.ts"
import { startScriptedModel } from "../test/kit/model.ts"
import { findOpenCode } from "../src/runner/opencode/launch/binaries.ts"
import { requireBinary, scriptedConfig } from "../test/kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../test/kit/session-agent.ts"
import { type Podman, startPodman } from "../test/stack/podman.ts"
import { startServeStack } from "../src/cli/serve-stack.ts"
import { isReady } from "../src/fleet/core/pool.ts"
import { openSqliteStore } from "../src/fleet/store/sqlite-store.ts"
import { silentLog } from "../test/kit/log.ts"
import { endSandboxes, groupFolder } from "./end-sandboxes.ts"
import { percentile, say } from "./measure.ts"

const RUNS = 10
const IDLE_RUNS = 3
const MANY = 50
const limit = () => AbortSignal.timeout(120_000)
const root = mkdtempSync(join(tmpdir(), "bench-fleet-"))
const binary = requireBinary()
const opencodeBinary = findOpenCode({ path: "", self: binary })
const model = await startScriptedModel()
const agent = startTestSessionAgent({ config: scriptedConfig(model) })
const standIn = join(root, "stand-in")
writeFileSync(standIn, "#!/bin/sh\nexec sleep 100000\n")
chmodSync(standIn, 0o755)

let podman: Podman | undefined
/** A bench that is stopped leaves no sandbox behind. */
const stopped = () => {
  endSandboxes(root)
  const ended = podman?.stop() ?? Promise.resolve()
  void ended.finally(() => {
    rmSync(root, { recursive: true, force: true })
    process.exit(130)
  })
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stopped)

const figure = (name: string, values: readonly number[]): void =>
  say(
    name,
    `p50 ${percentile(values, 0.5).toFixed(0)} ms, p95 ${percentile(values, 0.95).toFixed(0)} ms`,
  )
const timed = async (run: () => Promise<unknown>): Promise<number> => {
  const started = performance.now()
  await run()
  return performance.now() - started
}
const valueOf = <T>(result: { readonly is: string; readonly value?: T }): T => {
  if (result.is !== "ok") throw new Error(JSON.stringify(result))
  return result.value as T
}

interface Subject {
  readonly name: string
  readonly provider: SandboxProvider
  readonly image: ImageChoice
  readonly environment: Readonly<Record<string, string>>
  /** Absent: one session agent, which keeps one runner connected. */
  readonly agentFor?: (session: string) => TestSessionAgent
}

const specOf = (subject: Subject, session: string, change: Partial<SandboxSpec>): SandboxSpec => {
  const generation = change.generation ?? 1
  const to = subject.agentFor?.(session) ?? agent
  return {
    session,
    generation,
    name: `sp-${session}-${generation}`,
    labels: { deployment: "bench", tenant: "t", session, generation: String(generation) },
    image: subject.image,
    environment: {
      ...subject.environment,
      DO_WS_URL: to.url,
      RUNNER_TOKEN: to.token,
      SESSION_ID: session,
      JWT_SECRET: "secret-of-the-bench-0123456789",
      SANDPIPER_SERVICES: "none",
    },
    volumes: [],
    ports: [9000],
    resources: {},
    idleMs: 900_000,
    lifeMs: 86_400_000,
    ...change,
  }
}

const healthy = async ({ provider }: Subject, ref: string): Promise<void> => {
  const { url } = valueOf(await provider.address(ref, 9000))
  for (;;) {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(2000) }).catch(
      () => undefined,
    )
    if (answer?.ok === true) return
    await Bun.sleep(2)
  }
}
const create = async (subject: Subject, session: string, change: Partial<SandboxSpec> = {}) =>
  valueOf(await subject.provider.create(specOf(subject, session, change), limit())).ref

/** One life: each step's time in milliseconds. */
const life = async (subject: Subject, run: number) => {
  const session = `life${run}`
  const { provider } = subject
  let ref = ""
  const started = await timed(async () => {
    ref = await create(subject, session)
    await healthy(subject, ref)
  })
  const paused = await timed(() => provider.pause(ref))
  const woken = await timed(async () => {
    await provider.resume(ref, { idleMs: 1, lifeMs: 1 })
    await healthy(subject, ref)
  })
  let id = ""
  const saved = await timed(async () => {
    ;({ id } = valueOf(await provider.snapshot(ref, "disk", limit())))
  })
  const ended = await timed(() => provider.terminate(ref))
  const restored = await timed(async () => {
    ref = await create(subject, session, { generation: 2, image: { kind: "snapshot", id } })
    await healthy(subject, ref)
  })
  await provider.terminate(ref)
  await provider.removeSnapshot(id)
  return { started, paused, woken, saved, ended, restored }
}

const untilIdle = async (subject: Subject, run: number): Promise<number> => {
  const from = agent.frames.length
  let ref = ""
  const took = await timed(async () => {
    ref = await create(subject, `idle${run}`)
    await agent.frame("agentStatus", ({ status }) => status === "idle", from)
  })
  await subject.provider.terminate(ref)
  return took
}

const measure = async (subject: Subject, withAgent: boolean): Promise<void> => {
  await life(subject, 0)
  const lives: Awaited<ReturnType<typeof life>>[] = []
  for (let run = 1; run <= RUNS; run += 1) lives.push(await life(subject, run))
  const { name } = subject
  figure(
    `${name}: create to /health`,
    lives.map((one) => one.started),
  )
  figure(
    `${name}: pause`,
    lives.map((one) => one.paused),
  )
  figure(
    `${name}: resume to /health`,
    lives.map((one) => one.woken),
  )
  figure(
    `${name}: snapshot`,
    lives.map((one) => one.saved),
  )
  figure(
    `${name}: restore to /health`,
    lives.map((one) => one.restored),
  )
  figure(
    `${name}: terminate`,
    lives.map((one) => one.ended),
  )
  if (!withAgent) return
  const idle: number[] = []
  for (let run = 0; run < IDLE_RUNS; run += 1) idle.push(await untilIdle(subject, run))
  figure(`${name}: create to an idle agent`, idle)
}

const environment = { PATH: process.env["PATH"] ?? "", HOME: root, OPENCODE_BIN: opencodeBinary }
const { isolation, findings } = await probeMachine(join(root, "probe"))
const local = (name: string, opencode: string): SandboxProvider =>
  createLocalProvider({
    root: join(root, name),
    self: [binary],
    clock: systemClock,
    ...(isolation &&
      name !== "plain" && {
        isolated: {
          isolation,
          programs: [binary, opencode],
          variables: { OPENCODE_BIN: opencode },
          hostPorts: () => loopbackPorts([model.url]),
        },
      }),
  })
const image = { kind: "image", id: "-" } as const
say(
  "load of this machine at the start (1 min)",
  readFileSync("/proc/loadavg", "utf8").split(" ")[0] ?? "",
)
if (isolation)
  await measure(
    { name: "isolated", provider: local("isolated", opencodeBinary), image, environment },
    true,
  )
else say("isolated", `not measured: ${findings.map(({ text }) => text).join("; ")}`)
await measure({ name: "not isolated", provider: local("plain", ""), image, environment }, true)

/** Podman with the same binary in a small image, in this machine's network. */
const beside = async (): Promise<void> => {
  if (Bun.which("podman") === null || Bun.which("runc") === null)
    return say("podman", "not measured: podman or runc is not installed")
  podman = await startPodman()
  const name = "localhost/sandpiper-bench"
  await podman.image({
    name,
    programs: ["sh", "cat", "env", "rm", "sleep"],
    files: { "/usr/bin/sandpiper": binary },
    startScript: "#!/bin/sh\nexport OPENCODE_BIN=/usr/bin/sleep\nexec /usr/bin/sandpiper run\n",
  })
  const provider = createDockerProvider({
    socket: podman.socket,
    network: "host",
    clock: systemClock,
  })
  try {
    await measure(
      { name: "podman", provider, image: { kind: "image", id: name }, environment: {} },
      false,
    )
  } finally {
    await podman.stop()
  }
}
await beside().catch((error: unknown) =>
  say("podman", `not measured: ${String(error).slice(0, 160)}`),
)

const memoryOf = (group: string): number =>
  readFileSync(join(group, "cgroup.procs"), "utf8")
    .split("\n")
    .filter((pid) => pid !== "")
    .map((pid) => {
      const file = `/proc/${pid}/smaps_rollup`
      // A process of the start may end meanwhile.
      const text = existsSync(file) ? readFileSync(file, "utf8") : ""
      return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024
    })
    .reduce((sum, one) => sum + one, 0)

const many = async (): Promise<void> => {
  const provider = local("many", standIn)
  const agents = new Map<string, TestSessionAgent>()
  const agentFor = (session: string): TestSessionAgent => {
    const own = agents.get(session) ?? startTestSessionAgent()
    agents.set(session, own)
    return own
  }
  const subject = { name: "many", provider, image, environment, agentFor }
  const refs: string[] = []
  const started = await timed(async () => {
    for (let number = 0; number < MANY; number += 1) refs.push(await create(subject, `m${number}`))
    for (const ref of refs) await healthy(subject, ref)
  })
  const memory = refs.map((ref) => memoryOf(groupFolder(join(root, "many"), ref)))
  const asleep = await timed(() => Promise.all(refs.map((ref) => provider.pause(ref))))
  const awake = await timed(() =>
    Promise.all(
      refs.map(async (ref) => {
        await provider.resume(ref, { idleMs: 1, lifeMs: 1 })
        await healthy(subject, ref)
      }),
    ),
  )
  say(
    `${MANY} sandboxes, one after the other: create to all healthy`,
    `${(started / 1000).toFixed(1)} s`,
  )
  say(
    "memory of each (proportional), with a stand-in for OpenCode",
    `p50 ${percentile(memory, 0.5).toFixed(0)} MB, p95 ${percentile(memory, 0.95).toFixed(0)} MB`,
  )
  say(`${MANY} sandboxes: sleep of all`, `${asleep.toFixed(0)} ms`)
  say(`${MANY} sandboxes: wake of all, each healthy`, `${awake.toFixed(0)} ms`)
  await Promise.all(refs.map((ref) => provider.terminate(ref)))
  for (const one of agents.values()) await one.stop()
}
if (isolation) await many()

/** A new thread takes a sandbox that was started ahead: from the request to the answer that it runs. */
const claims = async (): Promise<void> => {
  const token = "token-of-the-bench-0123456789"
  const store = openSqliteStore(":memory:")
  const stack = await startServeStack({
    provider: local("claims", standIn),
    store: { ...store, close: async () => {} },
    version: "bench",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    poolSize: 1,
    configure: async () => {},
    hub: {
      stateDir: join(root, "claims-hub"),
      workDir: root,
      port: 0,
      environment: { ...environment, OPENCODE_BIN: standIn, SANDPIPER_SERVICES: "none" },
      clock: systemClock,
      log: silentLog,
      clientToken: token,
    },
  })
  const isFull = async () => (await store.pooled()).some((row) => isReady(row.life))
  const took: number[] = []
  for (let run = 0; run <= RUNS; run += 1) {
    while (!(await isFull())) await Bun.sleep(20)
    const ms = await timed(async () => {
      const response = await fetch(`${stack.hub.url}/api/threads/claim${run}/resolve?wait=1`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
      })
      const { sessionId, status } = (await response.json()) as Readonly<Record<string, string>>
      if (sessionId?.startsWith("warm-") !== true || status !== "running")
        throw new Error(`not a claim: ${String(sessionId)} ${String(status)}`)
    })
    // The first request also opens the server's connection.
    if (run > 0) took.push(ms)
  }
  figure("claim of a warm sandbox, from the request to its answer", took)
  await stack.pool.stop()
  for (const { id } of await store.present()) {
    await stack.keeper.want(id, "ended")
    await stack.keeper.waitFor(id, (row) => row.life.phase === "ended", limit())
  }
  await stack.stop()
  await store.close()
}
await claims()
await agent.stop()
await model.stop()
rmSync(root, { recursive: true, force: true })

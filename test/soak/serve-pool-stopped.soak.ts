/**
 * The warm pool of local sandboxes with the compiled program: the first launchers are stopped right after their spawn. Their entries
 * hold back no others, and no process of them is left. The sandboxes have no agent.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { chmod, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { recordingLog } from "../kit/log.ts"
import { type ScriptedModel, startScriptedModel } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, startServe } from "../kit/serve.ts"
import { untilState, untilTrue } from "../kit/until-true.ts"

const SIZE = 3
const STOPPED = 2

let model: ScriptedModel
let place: Sandbox
let store: FleetStore
let stack: ServeStack
const lines: string[] = []
/** The session and the process of each stopped launcher. */
const stopped: { readonly session: string; readonly pid: number }[] = []

const boxesFolder = () => join(place.root, "fleet", "boxes")
const pidOf = (ref: string): number => {
  const box = JSON.parse(readFileSync(join(boxesFolder(), ref, "box.json"), "utf8")) as {
    readonly process: { readonly pid: number }
  }
  return box.process.pid
}

/** Stops the first launchers before the answer of their create is known to the fleet. */
const stoppingFirst = (inner: SandboxProvider): SandboxProvider => ({
  ...inner,
  create: async (spec, limit) => {
    const made = await inner.create(spec, limit)
    if (made.is === "ok" && stopped.length < STOPPED) {
      const pid = pidOf(made.value.ref)
      process.kill(pid, "SIGSTOP")
      stopped.push({ session: spec.session, pid })
    }
    return made
  },
})

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  store = openSqliteStore(":memory:")
  const agent = join(place.root, "no-agent")
  await writeFile(agent, "#!/bin/sh\nexec sleep 100000\n")
  await chmod(agent, 0o755)
  stack = await startServe(place, model, {
    provider: stoppingFirst(
      createLocalProvider({
        root: join(place.root, "fleet"),
        self: [requireBinary()],
        clock: systemClock,
      }),
    ),
    store: { ...store, close: async () => {} },
    poolSize: SIZE,
    environment: { OPENCODE_BIN: agent },
    log: recordingLog(lines),
  })
})
afterAll(async () => {
  await stack.pool.stop()
  await endSandboxes(stack, store)
  await stack.stop()
  await store.close()
  await model.stop()
  await place.remove()
})

/** The places of an event in the log, and the sessions that it was about. */
const eventsOf = (event: string) =>
  lines.flatMap((line, index) => {
    const read = JSON.parse(line) as { readonly event: string; readonly session?: string }
    return read.event === event ? [{ index, session: read.session ?? "" }] : []
  })
/** Processes whose directory, environment or command line belongs to this session. */
const processesOf = (session: string) =>
  readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false
    try {
      return (
        readlinkSync(`/proc/${name}/cwd`).includes(session) ||
        readFileSync(`/proc/${name}/environ`, "utf8").includes(session)
      )
    } catch {
      // It has ended meanwhile.
      return false
    }
  })

test("a pool whose first two launchers are stopped right after their spawn starts others, is full, and then ends the two", async () => {
  await untilState(
    () => store.pooled(),
    (rows) => rows.filter(({ life }) => isReady(life)).length === SIZE,
    "full pool",
  )
  expect(stopped).toHaveLength(STOPPED)
  const ids = stopped.map(({ session }) => session)
  await untilTrue(
    async () => (await store.pooled()).every(({ id }) => !ids.includes(id)),
    "end of the entries whose launchers were stopped",
  )
  const [other] = eventsOf("provider.create.ok").filter(({ session }) => !ids.includes(session))
  const ends = eventsOf("provider.terminate.start").filter(({ session }) => ids.includes(session))
  // The others were not held back until an end of the two gave them their places.
  expect(new Set(ends.map(({ session }) => session))).toEqual(new Set(ids))
  for (const { index } of ends) expect(index).toBeGreaterThan(other?.index ?? Infinity)
  for (const { session, pid } of stopped) {
    expect(existsSync(`/proc/${pid}`)).toBe(false)
    expect(processesOf(session)).toEqual([])
  }
  await untilState(
    () => readdirSync(boxesFolder()),
    (names) => names.length === SIZE,
    "sandbox for each place of the pool and no other",
  )
})

/** What starts again in a sandbox that was restored from a snapshot, and in one whose runner has restarted. */
import { Database } from "bun:sqlite"
import { afterEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { openStateDb, writeFact } from "../../src/lib/state-db.ts"
import { type JoinedServices, joinServices } from "../../src/runner/join-services.ts"
import { untilTrue } from "../kit/until-true.ts"
import { recordingLog } from "../kit/log.ts"

const open: { readonly joined: JoinedServices; readonly base: string }[] = []
afterEach(async () => {
  for (const { joined, base } of open.splice(0)) {
    await joined.services.suspend()
    await rm(base, { recursive: true, force: true })
  }
})

interface Sandbox {
  readonly db: Database
  readonly workDir: string
  readonly path: (name: string) => string
  readonly log: readonly string[]
  /** A runner on the same state, as after a restart or a restore. */
  readonly runner: (snapshotHasDeps: boolean) => JoinedServices
}

const sandbox = async (): Promise<Sandbox> => {
  const base = await mkdtemp(join(tmpdir(), "autostart-"))
  const [stateDir, workDir] = [join(base, "state"), join(base, "work")]
  await mkdir(stateDir)
  await mkdir(workDir)
  const db = openStateDb(stateDir)
  const log: string[] = []
  return {
    db,
    workDir,
    path: (name) => join(workDir, name),
    log,
    runner: (snapshotHasDeps) => {
      const joined = joinServices({
        config: { stateDir, snapshotHasDeps },
        db,
        workDir,
        environment: { PATH: process.env["PATH"] ?? "" },
        user: undefined,
        secrets: undefined,
        clock: systemClock,
        log: recordingLog(log),
      })
      open.push({ joined, base })
      return joined
    },
  }
}

/** One service that tells what is in the env file when it starts. */
const prepare = async (box: Sandbox) => {
  const first = box.runner(false)
  await first.autostart()
  await first.envFiles.apply([{ path: ".env", variables: { WORD: "secret" } }])
  await first.services.start({
    name: "web",
    command: "cat .env > seen; exec sleep 1000",
    cwd: ".",
    port: undefined,
  })
  await untilTrue(() => existsSync(box.path("seen")), "the first start")
  await first.with({ start: async () => {}, stop: async () => {} }).stop()
  await rm(box.path("seen"))
  expect(existsSync(box.path(".env"))).toBe(false)
}
const statusOf = (joined: JoinedServices) => joined.services.find("web")?.status
const restored = (box: Sandbox) => writeFact(box.db, "services.boot", "another boot")

describe("in a sandbox that was restored from a snapshot", () => {
  test("env files are written before the services start, if the snapshot has their packages", async () => {
    const box = await sandbox()
    await prepare(box)
    restored(box)
    await box.runner(true).autostart()
    await untilTrue(() => existsSync(box.path("seen")), "the start")
    await untilTrue(() => Bun.file(box.path("seen")).size > 0, "the words of the env file")
    expect(await readFile(box.path("seen"), "utf8")).toContain("WORD=")
  })

  test("services stay stopped without SNAPSHOT_HAS_DEPS, and the env files are written all the same", async () => {
    const box = await sandbox()
    await prepare(box)
    restored(box)
    const next = box.runner(false)
    await next.autostart()
    expect(existsSync(box.path(".env"))).toBe(true)
    expect(statusOf(next)).toBe("stopped")
    expect(next.services.list().length).toBe(1)
  })

  test("an env file that cannot be written and a service that cannot start do not fail the start", async () => {
    const box = await sandbox()
    await prepare(box)
    restored(box)
    writeFact(box.db, "env-files", JSON.stringify([{ path: "../outside", variables: {} }]))
    const next = box.runner(true)
    await next.autostart()
    expect(box.log.some((line) => line.includes("env-files.not-written"))).toBe(true)
    await untilTrue(() => existsSync(box.path("seen")), "the start of the service")
    expect(existsSync(join(box.workDir, "../outside"))).toBe(false)
  })
})

test("a runner that restarts in the same sandbox starts the services once, with or without the setting", async () => {
  const box = await sandbox()
  await prepare(box)
  const next = box.runner(false)
  await Promise.all([next.autostart(), next.autostart()])
  await untilTrue(() => existsSync(box.path("seen")), "the start")
  expect(["starting", "running"]).toContain(statusOf(next) ?? "none")
  expect(next.services.find("web")?.restarts).toBe(0)
})

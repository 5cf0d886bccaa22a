/** A state directory that gets another session: what is removed, what stays, and a kill -9 after each step. */
import { afterEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../../src/lib/clock.ts"
import { openStateDb, readFact, writeFact } from "../../../src/lib/state-db.ts"
import { enterSession, stepsToEnter } from "../../../src/runner/state/enter-session.ts"
import { hasOldLayout, migrateOldLayout } from "../../../src/runner/state/old-layout.ts"
import { openServiceStore } from "../../../src/runner/sandbox/services/service-store.ts"
import { readEpoch } from "../../../src/runner/link/outbox-store.ts"
import { silentLog as log } from "../../kit/log.ts"

const CANARY = "canary-of-the-first-session"
const SERVICE = {
  name: "web",
  command: "serve",
  cwd: ".",
  port: 80,
  wanted: true,
} as const

const roots: string[] = []
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true })
})

interface Disk {
  readonly stateDir: string
  readonly home: string
  readonly enter: (sessionId: string, setAside?: string) => Promise<void>
  /** Every file with the canary in it, of the disk. */
  readonly canaries: () => Promise<readonly string[]>
}

const newDisk = async (): Promise<Disk> => {
  const root = await mkdtemp(join(tmpdir(), "disk-"))
  roots.push(root)
  const [stateDir, home] = [join(root, "state"), join(root, "home")]
  await mkdir(stateDir)
  await mkdir(home)
  return {
    stateDir,
    home,
    enter: (sessionId, setAside) =>
      enterSession({ stateDir, sessionId, homes: [home], setAside, clock: systemClock, log }),
    canaries: async () => {
      const names = await readdir(root, { recursive: true, withFileTypes: true })
      const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name))
      const found = await Promise.all(
        files.map(async (file) => ((await readFile(file)).includes(CANARY) ? [file] : [])),
      )
      return found.flat()
    },
  }
}

/** What a runner of the first session leaves. Returns its epoch. */
const useBy = async ({ stateDir, home, enter }: Disk): Promise<string> => {
  await enter("first")
  const session = openStateDb(join(stateDir, "session"))
  writeFact(session, "agent.api-token", CANARY)
  const epoch = readEpoch(session, () => crypto.randomUUID())
  session.close()
  const machine = openStateDb(join(stateDir, "machine"))
  openServiceStore(machine).save(SERVICE)
  machine.close()
  const data = join(stateDir, "session/opencode/xdg/data/opencode")
  await mkdir(join(data, "snapshot"), { recursive: true })
  await Bun.write(join(data, "opencode.db"), CANARY)
  await Bun.write(join(data, "snapshot/object"), CANARY)
  await Bun.write(join(stateDir, "session/services/web.log"), CANARY)
  await Bun.write(join(home, ".bash_history"), CANARY)
  await Bun.write(join(home, ".git-credentials"), CANARY)
  await Bun.write(join(home, ".profile"), "of the machine")
  return epoch
}

const epochOf = ({ stateDir }: Disk): string => {
  const db = openStateDb(join(stateDir, "session"))
  const epoch = readEpoch(db, () => "new epoch")
  db.close()
  return epoch
}

const servicesOf = ({ stateDir }: Disk) => {
  const db = openStateDb(join(stateDir, "machine"))
  const services = openServiceStore(db).all()
  db.close()
  return services
}

describe("a state directory that another session gets", () => {
  test("the session part and the traces in the home are gone, and the machine part stays", async () => {
    const disk = await newDisk()
    await useBy(disk)
    expect(await disk.canaries()).toHaveLength(6)
    await disk.enter("second")
    expect(await disk.canaries()).toEqual([])
    expect(epochOf(disk)).toBe("new epoch")
    expect(servicesOf(disk)).toEqual([SERVICE])
    expect(await readFile(join(disk.home, ".profile"), "utf8")).toBe("of the machine")
  })

  test("the same session finds everything as it was", async () => {
    const disk = await newDisk()
    const epoch = await useBy(disk)
    const before = await disk.canaries()
    await disk.enter("first")
    expect(await disk.canaries()).toEqual(before)
    expect(epochOf(disk)).toBe(epoch)
  })

  test("a directory that its owner may not write to is removed, and the target of a symbolic link stays", async () => {
    const disk = await newDisk()
    await useBy(disk)
    const closed = join(disk.stateDir, "session/opencode/home/go/pkg")
    await Bun.write(join(closed, "module"), CANARY)
    await Bun.write(join(disk.home, "kept"), "kept")
    await symlink(disk.home, join(disk.stateDir, "session/opencode/link"))
    await chmod(closed, 0o000)
    await disk.enter("second")
    expect(await disk.canaries()).toEqual([])
    expect(await readFile(join(disk.home, "kept"), "utf8")).toBe("kept")
  })

  test("on a person's machine the part of the former session is set aside, each one in a folder of its own", async () => {
    const disk = await newDisk()
    const aside = join(disk.stateDir, "ended/first")
    await useBy(disk)
    await disk.enter("second", aside)
    expect(existsSync(join(aside, "opencode/xdg/data/opencode/opencode.db"))).toBeTrue()
    await useBy(disk)
    await disk.enter("second", aside)
    expect(existsSync(join(`${aside}-2`, "state.db"))).toBeTrue()
    expect(epochOf(disk)).toBe("new epoch")
  })
})

describe("a start that is killed while it removes the session part", () => {
  const steps = [
    "end the processes",
    "remove the traces",
    "remove the mark",
    "remove the session part",
    "mark the session part",
    "mark the machine part",
  ]

  test("these are all the steps, in this order", async () => {
    const disk = await newDisk()
    await useBy(disk)
    const { stateDir, home } = disk
    const options = { stateDir, sessionId: "second", homes: [home], clock: systemClock, log }
    expect(stepsToEnter(options).map(({ name }) => name)).toEqual(steps)
  })

  for (const step of steps) {
    test.each(["second", "third"])(
      `killed after "${step}", the next start by the session %s finishes it and starts a new epoch`,
      async (next) => {
        const disk = await newDisk()
        await useBy(disk)
        await killAfter(disk, step)
        await disk.enter(next)
        expect(await disk.canaries()).toEqual([])
        expect(epochOf(disk)).toBe("new epoch")
        expect(servicesOf(disk)).toEqual([SERVICE])
      },
    )

    test(`killed after "${step}", the former session finds its part whole or none of it`, async () => {
      const disk = await newDisk()
      const epoch = await useBy(disk)
      const inState = async () =>
        (await disk.canaries()).filter((file) => file.startsWith(disk.stateDir))
      const whole = await inState()
      await killAfter(disk, step)
      await disk.enter("first")
      const left = await inState()
      expect([epochOf(disk), left]).toEqual(left.length > 0 ? [epoch, whole] : ["new epoch", []])
    })
  }

  test("killed while the files are removed, the former session gets none of what was left", async () => {
    const disk = await newDisk()
    await useBy(disk)
    await killAfter(disk, "remove the mark")
    await rm(join(disk.stateDir, "session/state.db"))
    await disk.enter("first")
    expect(await disk.canaries()).toEqual([])
    expect(epochOf(disk)).toBe("new epoch")
  })
})

describe("a state directory of an earlier version", () => {
  const oldDisk = async () => {
    const disk = await newDisk()
    const db = openStateDb(disk.stateDir)
    openServiceStore(db).save(SERVICE)
    writeFact(db, "env-files", "[1]")
    writeFact(db, "outbox.epoch", "the epoch before")
    db.close()
    const before = join(disk.stateDir, "opencode/xdg/data/opencode/opencode.db")
    await Bun.write(before, CANARY)
    await Bun.write(join(disk.stateDir, "services/web.log"), "log")
    return disk
  }
  const check = (disk: Disk) => {
    expect(hasOldLayout(disk.stateDir)).toBeFalse()
    expect(epochOf(disk)).toBe("the epoch before")
    expect(servicesOf(disk)).toEqual([SERVICE])
    const machine = openStateDb(join(disk.stateDir, "machine"))
    expect(readFact(machine, "env-files")).toBe("[1]")
    machine.close()
    const data = join(disk.stateDir, "session/opencode/xdg/data/opencode/opencode.db")
    expect(existsSync(data)).toBeTrue()
  }

  test("it is divided into the two parts once, and its session goes on", async () => {
    const disk = await oldDisk()
    expect(hasOldLayout(disk.stateDir)).toBeTrue()
    migrateOldLayout(disk.stateDir, "first")
    await disk.enter("first")
    check(disk)
    expect((await readdir(disk.stateDir)).toSorted()).toEqual(["machine", "session"])
  })

  test("a migration that was killed after it had moved the database goes on", async () => {
    const disk = await oldDisk()
    await mkdir(join(disk.stateDir, "session.draft"))
    for (const name of (await readdir(disk.stateDir)).filter((one) => one.startsWith("state.db")))
      await Bun.$`mv ${join(disk.stateDir, name)} ${join(disk.stateDir, "session.draft", name)}`.quiet()
    expect(hasOldLayout(disk.stateDir)).toBeTrue()
    migrateOldLayout(disk.stateDir, "first")
    await disk.enter("first")
    check(disk)
  })

  test("another session gets nothing of it but the machine part", async () => {
    const disk = await oldDisk()
    migrateOldLayout(disk.stateDir, "first")
    await disk.enter("second")
    expect(await disk.canaries()).toEqual([])
    expect(servicesOf(disk)).toEqual([SERVICE])
  })
})

const killAfter = async ({ stateDir, home }: Disk, step: string): Promise<void> => {
  const program = join(import.meta.dir, "killed-step.ts")
  const child = Bun.spawn([process.execPath, program, stateDir, "second", home, step], {
    stdio: ["ignore", "ignore", "inherit"],
  })
  await child.exited
  expect(child.signalCode).toBe("SIGKILL")
}

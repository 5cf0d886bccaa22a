/** Watchdogs with real processes: an owner that is killed, one that comes after it, and several at the same time. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { isAlive, type ProcessIdentity, readProcess } from "../../src/lib/process-identity.ts"
import { hasOwner, startWatchdog, type Watchdog } from "../../src/lib/watchdog.ts"
import { registerScript } from "../../src/lib/watchdog-script.ts"
import { recordingLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"

let folder = ""
const ended: Bun.Subprocess[] = []
const released: Watchdog[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "watchdog-"))
})
afterEach(async () => {
  for (const one of released.splice(0)) one.release()
  for (const one of ended.splice(0)) {
    one.kill("SIGTERM")
    await one.exited
  }
  rmSync(folder, { recursive: true, force: true })
})

const mark = () => join(folder, "done")
const records = () => join(folder, "records")
const command = () => ["/bin/sh", "-c", `: >${mark()}`]
const identityOf = (pid: number): ProcessIdentity => {
  const found = readProcess(pid)
  if (found === undefined) throw new Error(`${pid} does not run`)
  return found
}

const startOwner = async (seconds: number) => {
  const program = join(import.meta.dir, "../kit/programs/watchdog-owner.ts")
  const owner = Bun.spawn([process.execPath, program, records(), String(seconds), ...command()], {
    stdin: "pipe",
    stdout: "pipe",
  })
  ended.push(owner)
  const { value } = await owner.stdout.getReader().read()
  const said = JSON.parse(new TextDecoder().decode(value)) as { pid: number; isSuccessor: boolean }
  return {
    watchdog: identityOf(said.pid),
    isSuccessor: said.isSuccessor,
    kill: async () => {
      owner.kill("SIGKILL")
      await owner.exited
    },
    stop: async () => {
      owner.kill("SIGTERM")
      await owner.exited
    },
  }
}
/** An owner in this process. */
const own = (seconds: number, lines: string[] = []): Watchdog => {
  const watchdog = startWatchdog({
    folder: records(),
    seconds,
    command: command(),
    environment: process.env,
    clock: systemClock,
    log: recordingLog(lines, []),
  })
  released.push(watchdog)
  return watchdog
}
const isOver = (one: ProcessIdentity) => untilTrue(() => !isAlive(one), "end of the watchdog")

test("the command runs after the owner was killed with SIGKILL and none has come, and the watchdog has become it", async () => {
  const owner = await startOwner(1)
  await owner.kill()
  await untilTrue(() => existsSync(mark()), "the command")
  await isOver(owner.watchdog)
  expect(hasOwner(records())).toBe(false)
})

test("a next owner ends the watchdog of a killed one, so that its command never runs, and has one of its own", async () => {
  const owner = await startOwner(60)
  expect(owner.isSuccessor).toBe(false)
  await owner.kill()
  const next = await startOwner(60)
  expect(next.isSuccessor).toBe(true)
  // The command would run in this process.
  await isOver(owner.watchdog)
  expect([isAlive(next.watchdog), existsSync(mark())]).toEqual([true, false])
  expect(readdirSync(records()).toSorted()).toEqual([
    expect.stringMatching(/\.json$/),
    expect.stringMatching(/\.watchdog$/),
  ])
})

test("a next owner also ends the command of a watchdog whose time is over", async () => {
  const begun = join(folder, "begun")
  const program = join(import.meta.dir, "../kit/programs/watchdog-owner.ts")
  const slow = ["/bin/sh", "-c", `: >${begun}; sleep 600; : >${mark()}`]
  const owner = Bun.spawn([process.execPath, program, records(), "1", ...slow], {
    stdin: "pipe",
    stdout: "pipe",
  })
  const { value } = await owner.stdout.getReader().read()
  const watchdog = identityOf((JSON.parse(new TextDecoder().decode(value)) as { pid: number }).pid)
  owner.kill("SIGKILL")
  await owner.exited
  await untilTrue(() => existsSync(begun), "begin of the command")
  const children = readFileSync(`/proc/${watchdog.pid}/task/${watchdog.pid}/children`, "utf8")
  const sleeper = identityOf(Number(children.trim()))
  own(60)
  await isOver(watchdog)
  await isOver(sleeper)
  expect(existsSync(mark())).toBe(false)
})

test("a watchdog whose owner was killed before it could say its name ends when a next owner has come", async () => {
  const owner = await startOwner(60)
  await owner.kill()
  // As between the start of the process and its first line.
  for (const name of readdirSync(records()))
    if (name.endsWith(".watchdog")) rmSync(join(records(), name))
  const record = join(
    records(),
    readdirSync(records())
      .map((name) => name.replace(".json", ""))
      .join(""),
  )
  own(60)
  const late = Bun.spawn(["/bin/sh", "-c", `${registerScript}\nread -r _`, "sh", record], {
    stdin: "pipe",
  })
  expect(await late.exited).toBe(0)
  process.kill(owner.watchdog.pid, "SIGKILL")
})

test("an owner beside another one leaves the other's watchdog alone, and the folder has an owner until both have ended", async () => {
  const one = await startOwner(60)
  const other = await startOwner(60)
  expect([other.isSuccessor, isAlive(one.watchdog)]).toEqual([false, true])
  await one.stop()
  await isOver(one.watchdog)
  expect(hasOwner(records())).toBe(true)
  await other.stop()
  expect(hasOwner(records())).toBe(false)
})

test("an owner that has ended everything also ends the watchdog of one beside it that was killed since", async () => {
  const one = await startOwner(60)
  const other = await startOwner(60)
  await one.kill()
  expect(isAlive(one.watchdog)).toBe(true)
  await other.stop()
  await isOver(one.watchdog)
  expect(readdirSync(records())).toEqual([])
})

test("an owner that has ended what it had started leaves no watchdog and no record", async () => {
  const owner = await startOwner(60)
  await owner.stop()
  await isOver(owner.watchdog)
  expect(readdirSync(records())).toEqual([])
})

test("a watchdog that was killed is started again", async () => {
  const lines: string[] = []
  const watchdog = own(60, lines)
  const first = watchdog.pid() ?? 0
  process.kill(first, "SIGKILL")
  await untilTrue(() => watchdog.pid() !== first, "another watchdog")
  expect(isAlive(identityOf(watchdog.pid() ?? 0))).toBe(true)
  expect(lines.join("\n")).toContain("watchdog.ended")
})

test("an owner that cannot write its record, as on a full disk, has a watchdog all the same", () => {
  writeFileSync(join(folder, "records"), "not a folder")
  const lines: string[] = []
  const watchdog = own(60, lines)
  expect(isAlive(identityOf(watchdog.pid() ?? 0))).toBe(true)
  expect(lines.join("\n")).toContain("watchdog.not-recorded")
})

test("without a time there is no watchdog, and the owner still ends the one of a killed owner before it", async () => {
  const owner = await startOwner(60)
  await owner.kill()
  const next = own(0)
  expect([next.isSuccessor, next.pid()]).toEqual([true, undefined])
  await isOver(owner.watchdog)
})

test("a watchdog costs one process with less than two megabytes of its own, and no secret of its owner is in its environment", () => {
  process.env["WATCHDOG_TEST_SECRET"] = "of the owner"
  const pid = own(60).pid() ?? 0
  delete process.env["WATCHDOG_TEST_SECRET"]
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8")
  const pss = Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1])
  expect(pss).toBeLessThan(2048)
  expect(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")).toBe("")
  expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain("WATCHDOG_TEST_SECRET")
})

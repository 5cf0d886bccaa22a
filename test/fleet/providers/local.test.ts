/** Local sandboxes with a real process each: a stand-in for the runner that writes, answers and can be frozen. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { DiskAction, DiskSize } from "../../../src/fleet/core/disk-quota.ts"
import type { SandboxProvider, SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { findCgroups } from "../../../src/fleet/providers/local-cgroups.ts"
import { createLocalProvider } from "../../../src/fleet/providers/local.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { untilFound, untilTrue } from "../../kit/until-true.ts"

const root = mkdtempSync(join(tmpdir(), "local-sandboxes-"))
const program = join(root, "stand-in")
let provider: SandboxProvider

const MIB = 1024 * 1024
/** A process that has ended and was not reaped is none. */
const isRunning = (pid: number): boolean => {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return false
  }
}

/** Counts in a file, also from a child in its own process session, as OpenCode is one. */
const script = `#!/bin/sh
echo "$SESSION_ID" > session.txt
echo "$SANDPIPER_SERVICES" > services.txt
setsid sh -c 'while :; do echo x >> beats.txt; sleep 0.02; done' &
while :; do sleep 1; done
`

const open = () =>
  createLocalProvider({ root: join(root, "fleet"), self: [program], clock: systemClock })

beforeAll(() => {
  writeFileSync(program, script)
  chmodSync(program, 0o755)
  provider = open()
})
afterAll(async () => {
  for await (const { ref } of provider.list({ deployment: "d" })) await provider.terminate(ref)
  rmSync(root, { recursive: true, force: true })
})

const spec = (session: string, generation = 1, snapshot?: string): SandboxSpec => ({
  session,
  generation,
  name: `sp-${session}-${generation}`,
  labels: { deployment: "d", tenant: "t", session, generation: String(generation) },
  image: snapshot === undefined ? { kind: "image", id: "-" } : { kind: "snapshot", id: snapshot },
  environment: { PATH: process.env["PATH"] ?? "", SESSION_ID: session },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 1000,
  lifeMs: 1000,
})
const limit = () => AbortSignal.timeout(60_000)
const workspace = (session: string, file: string) =>
  join(root, "fleet/files", session, "workspace", file)
const beats = (session: string) => {
  const file = workspace(session, "beats.txt")
  return existsSync(file) ? readFileSync(file, "utf8").length : 0
}
const recordOf = (ref: string) => join(root, "fleet/boxes", ref, "box.json")
const boxOf = (ref: string) =>
  JSON.parse(readFileSync(recordOf(ref), "utf8")) as { readonly process: { readonly pid: number } }
const startOne = async (session: string) => {
  const made = await provider.create(spec(session), limit())
  expect(made).toEqual({ is: "ok", value: { ref: `sp-${session}-1` } })
  await untilTrue(() => beats(session) > 2, "the first beats")
  return `sp-${session}-1`
}

describe("a local sandbox", () => {
  test("sandboxes that are not isolated have no screen, because they would share it", async () => {
    for (const [session, given, started] of [
      ["all-services", "all", "vscode,ttyd"],
      ["some-services", "vnc,vscode", "vscode"],
      ["screen-only", "vnc", "none"],
    ] as const) {
      const { environment, ...rest } = spec(session)
      const made = { ...rest, environment: { ...environment, SANDPIPER_SERVICES: given } }
      expect(await provider.create(made, limit())).toMatchObject({ is: "ok" })
      await untilTrue(() => beats(session) > 0, "the first beats")
      expect(readFileSync(workspace(session, "services.txt"), "utf8")).toBe(`${started}\n`)
      await provider.terminate(`sp-${session}-1`)
    }
  })

  test("the process of a local sandbox starts with its environment, and the name cannot be used twice", async () => {
    const ref = await startOne("start")
    expect(readFileSync(workspace("start", "session.txt"), "utf8")).toBe("start\n")
    expect(await provider.look(ref)).toMatchObject({ value: { state: "running", generation: 1 } })
    expect(await provider.create(spec("start"), limit())).toMatchObject({ is: "unknown" })
  })

  test("a pause stops every process of it, also one in another process session, and a resume continues them", async () => {
    const ref = await startOne("freeze")
    await provider.pause(ref)
    const frozen = beats("freeze")
    // Another sandbox that runs the same program beats meanwhile.
    await startOne("beside")
    await untilTrue(() => beats("beside") > 16, "beats of another sandbox")
    expect(beats("freeze")).toBe(frozen)
    expect(await provider.look(ref)).toMatchObject({ value: { state: "paused" } })
    expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
    await provider.resume(ref, { idleMs: 1, lifeMs: 1 })
    await untilTrue(() => beats("freeze") > frozen, "beats after the resume")
  })

  test("a snapshot is restored in a new sandbox at the same path, after the first one has ended", async () => {
    const ref = await startOne("keep")
    writeFileSync(workspace("keep", "work.txt"), "done")
    const made = await provider.snapshot(ref, "disk", limit())
    const id = made.is === "ok" ? made.value.id : ""
    const before = beats("keep")
    await untilTrue(() => beats("keep") > before, "beats after the snapshot")
    await provider.terminate(ref)
    expect(existsSync(workspace("keep", "work.txt"))).toBe(false)
    await provider.create(spec("keep", 2, id), limit())
    expect(readFileSync(workspace("keep", "work.txt"), "utf8")).toBe("done")
    expect(await provider.create(spec("none", 1, "no-such"), limit())).toEqual({ is: "missing" })
  })

  test("what a sandbox has written is measured, and all of its programs but its runner end when it is too much", async () => {
    const ref = await startOne("disk")
    writeFileSync(workspace("disk", "five"), Buffer.alloc(5 * MIB))
    const seen: DiskSize[] = []
    const check = (holds: boolean, action: DiskAction) => {
      const decide = (use: DiskSize) => {
        seen.push(use)
        return action
      }
      return provider.disks?.check(ref, { holds, limit: limit() }, decide)
    }
    for (const holds of [false, true]) {
      const before = beats("disk")
      expect(await check(holds, "continue")).toEqual({ is: "ok", value: "continue" })
      await untilTrue(() => beats("disk") > before, "beats after a measurement")
    }
    for (const { bytes, inodes } of seen) {
      expect(bytes).toBeGreaterThan(5 * MIB)
      expect(bytes).toBeLessThan(6 * MIB)
      expect(inodes).toBeGreaterThan(5)
      expect(inodes).toBeLessThan(50)
    }
    await provider.exec(
      ref,
      { argv: ["sh", "-c", "setsid sleep 77 >/dev/null 2>&1 & echo $! > left.pid"] },
      limit(),
    )
    const left = Number(readFileSync(workspace("disk", "left.pid"), "utf8"))
    expect(await check(true, "end-agent")).toEqual({ is: "ok", value: "end-agent" })
    const last = beats("disk")
    expect(await provider.look(ref)).toMatchObject({ value: { state: "running" } })
    await startOne("disk-beside")
    expect(beats("disk")).toBe(last)
    // Without a group of the kernel a process that has lost its parents is missed.
    if (findCgroups().root !== undefined)
      await untilTrue(() => !isRunning(left), "the end of the process that a command left behind")
    expect(await check(true, "pause")).toEqual({ is: "ok", value: "pause" })
    expect(await provider.look(ref)).toMatchObject({ value: { state: "paused" } })
    expect(await check(true, "continue")).toMatchObject({ is: "unknown" })
    const none = await provider.disks?.check(
      "sp-none-1",
      { holds: false, limit: limit() },
      () => "continue",
    )
    expect(none).toEqual({ is: "missing" })
  })

  test("a sandbox that was left standing by a killed fleet in a measurement goes on with the next one", async () => {
    const ref = await startOne("held")
    // What the measurement of a killed process has left.
    writeFileSync(join(root, "fleet/boxes", ref, "held"), "")
    await provider.pause(ref)
    const record = JSON.parse(readFileSync(recordOf(ref), "utf8")) as object
    writeFileSync(recordOf(ref), JSON.stringify({ ...record, isFrozen: false }))
    const before = beats("held")
    open().disks?.recover()
    await untilTrue(() => beats("held") > before, "beats")
    expect(existsSync(join(root, "fleet/boxes", ref, "held"))).toBe(false)
  })

  test("the sandbox reads a report about its disk where it is told, and the next fleet, too", async () => {
    const ref = await startOne("report")
    expect(provider.disks?.report(ref)).toBeUndefined()
    const report = { state: "near", usedBytes: 9, limitBytes: 10, usedFiles: 3 } as const
    provider.disks?.setReport(ref, report)
    const read = { argv: ["sh", "-c", 'cat "$SANDBOX_DISK_FILE"'] }
    expect(await provider.exec(ref, read, limit())).toMatchObject({
      value: { stdout: JSON.stringify(report) },
    })
    expect(open().disks?.report(ref)).toEqual(report)
  })

  test("another process of the fleet finds the sandbox and ends it with all its processes", async () => {
    const ref = await startOne("found")
    const other = open()
    const found = await Array.fromAsync(other.list({ deployment: "d", session: "found" }))
    expect(found).toMatchObject([{ ref, state: "running" }])
    expect(await Array.fromAsync(other.list({ deployment: "elsewhere" }))).toEqual([])
    expect(await other.terminate(ref)).toMatchObject({ is: "ok" })
    expect(await other.terminate(ref)).toMatchObject({ is: "ok" })
    expect(await provider.look(ref)).toEqual({ is: "missing" })
  })

  test("a killed process is a stopped sandbox, and a resume starts it again with its files", async () => {
    const ref = await startOne("killed")
    writeFileSync(workspace("killed", "work.txt"), "kept")
    const box = boxOf(ref)
    process.kill(box.process.pid, "SIGKILL")
    await untilTrue(() => !existsSync(`/proc/${box.process.pid}`), "the end of the process")
    expect(await provider.look(ref)).toMatchObject({ value: { state: "stopped" } })
    await provider.resume(ref, { idleMs: 1, lifeMs: 1 })
    expect(await provider.look(ref)).toMatchObject({ value: { state: "running" } })
    expect(readFileSync(workspace("killed", "work.txt"), "utf8")).toBe("kept")
  })

  test("a sandbox whose fleet was killed while its files were made is not started half-made", async () => {
    const { image, ...rest } = spec("half")
    const killed = join(root, "killed.ts")
    // The image is read after the record is written and before the files are complete.
    writeFileSync(
      killed,
      `import { createLocalProvider } from ${JSON.stringify(join(import.meta.dir, "../../../src/fleet/providers/local.ts"))}
       import { systemClock } from ${JSON.stringify(join(import.meta.dir, "../../../src/lib/clock.ts"))}
       const spec = ${JSON.stringify(rest)}
       Object.defineProperty(spec, "image", { get: () => process.kill(process.pid, "SIGKILL") })
       await createLocalProvider({ root: ${JSON.stringify(join(root, "fleet"))}, self: ["-"], clock: systemClock }).create(spec)`,
    )
    const child = Bun.spawn([process.execPath, killed], { stderr: "inherit" })
    await child.exited
    expect(child.signalCode).toBe("SIGKILL")
    expect(await provider.look("sp-half-1")).toMatchObject({ value: { state: "stopped" } })
    // The fleet adopts a stopped sandbox and resumes it.
    expect(await provider.resume("sp-half-1", { idleMs: 1, lifeMs: 1 })).toEqual({ is: "missing" })
    expect(await provider.look("sp-half-1")).toEqual({ is: "missing" })
    expect(await provider.create({ ...spec("half", 2), image }, limit())).toMatchObject({
      is: "ok",
    })
    await untilTrue(() => beats("half") > 2, "beats of the next sandbox")
  })

  test("a command runs in the workspace and is killed at its limit", async () => {
    const ref = await startOne("exec")
    const result = await provider.exec(ref, { argv: ["sh", "-c", "pwd; exit 3"] }, limit())
    expect(result).toMatchObject({
      value: { exitCode: 3, stdout: `${workspace("exec", "")}\n` },
    })
    const slow = provider.exec(ref, { argv: ["sleep", "60"] }, AbortSignal.timeout(50))
    expect(await slow).toMatchObject({ is: "unknown" })
    expect(await provider.exec("sp-none-1", { argv: ["true"] }, limit())).toEqual({ is: "missing" })
  })

  test("a command that leaves a process with its output behind ends at its limit, and that process with the sandbox", async () => {
    const ref = await startOne("left")
    const argv = ["sh", "-c", "sleep 77 & echo $! $$ > left.pids"]
    const controller = new AbortController()
    const result = provider.exec(ref, { argv }, controller.signal)
    const file = workspace("left", "left.pids")
    const text = await untilFound(
      () => existsSync(file) && /^\d+ \d+\n/.exec(readFileSync(file, "utf8"))?.[0],
      "process that the command leaves behind",
    )
    const [pid = 0, shell = 0] = text.split(" ").map(Number)
    await untilTrue(() => !existsSync(`/proc/${shell}`), "the end of the command")
    controller.abort()
    expect(await result).toMatchObject({ is: "unknown" })
    // The answer has not waited for its end.
    expect(existsSync(`/proc/${pid}`)).toBe(true)
    await provider.terminate(ref)
    // Without a cgroup a process whose parents have ended is missed.
    if (findCgroups().root === undefined) process.kill(pid, "SIGKILL")
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the process")
  })

  test("a pipe or a socket in the workspace does not prevent a snapshot, which leaves it out", async () => {
    const ref = await startOne("pipe")
    Bun.spawnSync(["mkfifo", workspace("pipe", "pipe")])
    const socket = Bun.listen({ unix: workspace("pipe", "agent"), socket: { data: () => {} } })
    writeFileSync(workspace("pipe", "not-a.sock"), "text")
    const made = await provider.snapshot(ref, "disk", limit())
    socket.stop()
    expect(made).toMatchObject({ is: "ok" })
    await provider.terminate(ref)
    await provider.create(spec("pipe", 2, made.is === "ok" ? made.value.id : ""), limit())
    const names = readdirSync(workspace("pipe", ""))
    expect(names).toContain("not-a.sock")
    expect(names).not.toContain("pipe")
    expect(names).not.toContain("agent")
  })

  /** The launcher waits in the loader of its shell, which opens this library first: before it can join its group of processes. */
  const startStopped = async (session: string) => {
    const libraries = join(root, `libraries-${session}`)
    mkdirSync(libraries)
    Bun.spawnSync(["mkfifo", join(libraries, "libc.so.6")])
    const { environment, ...rest } = spec(session)
    const made = { ...rest, environment: { ...environment, LD_LIBRARY_PATH: libraries } }
    expect(await provider.create(made, limit())).toMatchObject({ is: "ok" })
    const { pid } = boxOf(`sp-${session}-1`).process
    process.kill(pid, "SIGSTOP")
    await untilTrue(
      () => /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, "utf8")),
      "stop of the launcher",
    )
    expect(readFileSync(`/proc/${pid}/cgroup`, "utf8")).not.toContain(`sp-${session}-1`)
    return pid
  }

  test("a launcher that was stopped before it joined its group is ended with its sandbox", async () => {
    const pid = await startStopped("stopped")
    expect(await provider.terminate("sp-stopped-1")).toMatchObject({ is: "ok" })
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the launcher")
    expect(await provider.look("sp-stopped-1")).toEqual({ is: "missing" })
  })

  // Without a group nothing on the command line of a launcher names its sandbox.
  test.if(findCgroups().root !== undefined)(
    "a stopped launcher whose fleet was killed before it recorded the process is ended with its sandbox",
    async () => {
      const pid = await startStopped("unrecorded")
      const { process: _launcher, ...record } = boxOf("sp-unrecorded-1")
      writeFileSync(recordOf("sp-unrecorded-1"), JSON.stringify(record))
      expect(await open().terminate("sp-unrecorded-1")).toMatchObject({ is: "ok" })
      await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the launcher")
    },
  )

  test("a stopped launcher is ended when the runner is started again, and only the new one is left", async () => {
    const pid = await startStopped("again")
    rmSync(join(root, "libraries-again"), { recursive: true })
    expect(await provider.exec("sp-again-1", { argv: ["/start.sh"] }, limit())).toMatchObject({
      is: "ok",
    })
    await untilTrue(() => !existsSync(`/proc/${pid}`), "the end of the launcher")
    await untilTrue(() => beats("again") > 0, "the first beats")
  })

  test("the file with its environment is readable for its owner only", async () => {
    const ref = await startOne("mode")
    const { mode } = await Bun.file(recordOf(ref)).stat()
    expect(mode & 0o777).toBe(0o600)
  })
})

/**
 * Sandboxes on this machine: each is a runner process with a disk of its own. They outlive the fleet's process, which finds
 * them again by the files it wrote. With `isolated` they neither see each other nor this machine; see docs/deploy.md.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { type Clock, sleep } from "../../lib/clock.ts"
import { digestOf } from "../../lib/digest.ts"
import { freePort } from "../../lib/free-port.ts"
import { type SandboxInfo, type SandboxProvider, UnsupportedError } from "./contract.ts"
import { type Cgroups, findCgroups } from "./local-cgroups.ts"
import { isolatedMode, type IsolatedModeOptions } from "./local-isolated.ts"
import { plainMode } from "./local-plain.ts"
import { identityOf, isAlive, type ProcessIdentity, processGroup } from "./local-processes.ts"
import { type Box, type BoxMode, boxSchema, type Launch, missing, ok } from "./local-record.ts"

export interface LocalProviderOptions {
  /** Holds the files of all sandboxes. */
  readonly root: string
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly clock: Clock
  /** Absent: found on this machine. */
  readonly cgroups?: Cgroups | undefined
  /** Absent: processes without isolation. */
  readonly isolated?: Omit<IsolatedModeOptions, "root" | "self" | "clock" | "hasLimits"> | undefined
}

const KILL_MS = 5000
const FREEZE_MS = 5000
const FREEZE_TRY_MS = 300

export const createLocalProvider = (options: LocalProviderOptions): SandboxProvider => {
  const { root, self, clock, isolated } = options
  const cgroups = options.cgroups ?? findCgroups()
  const boxesFolder = join(root, "boxes")
  mkdirSync(boxesFolder, { recursive: true, mode: 0o700 })
  const plain = plainMode({ root, self, now: clock.now })
  const mode: BoxMode = isolated
    ? isolatedMode({ ...isolated, root, self, clock, hasLimits: cgroups.limits !== undefined })
    : plain

  const boxFolder = (name: string) => join(boxesFolder, name)
  const boxFile = (name: string) => join(boxFolder(name), "box.json")
  // Groups of two fleets on one machine have different names.
  const fleetId = digestOf(root).replace(/^.*:/, "").slice(0, 10)
  const groupOf = (name: string) => processGroup(cgroups, `${fleetId}-${name}`)
  const rootsOf = (box: Box): readonly ProcessIdentity[] => [
    ...(box.process ? [box.process] : []),
    ...box.helpers,
  ]
  /** A sandbox keeps the mode in which it was made, also if the fleet has another one now. */
  const modeOf = (box: Box): BoxMode => {
    if (box.mode === mode.kind) return mode
    if (box.mode === "plain") return plain
    throw new Error(`${box.name} is isolated, and this fleet runs without isolation`)
  }

  const read = (name: string): Box | undefined => {
    if (!/^[\w-]{1,100}$/.test(name) || !existsSync(boxFile(name))) return undefined
    return boxSchema.parse(JSON.parse(readFileSync(boxFile(name), "utf8")))
  }
  const all = (): readonly Box[] => readdirSync(boxesFolder).flatMap((name) => read(name) ?? [])
  /** The environment holds tokens, so the file is for this user only. It is replaced as a whole. */
  const write = (box: Box) => {
    writeFileSync(`${boxFile(box.name)}.new`, JSON.stringify(box), { mode: 0o600 })
    renameSync(`${boxFile(box.name)}.new`, boxFile(box.name))
  }
  const isRunning = (box: Box) => box.process !== undefined && isAlive(box.process)

  const spawn = (box: Box, { argv, cwd, environment, input }: Launch, log: string) => {
    const child = Bun.spawn([...groupOf(box.name).prefix(box.resources), ...argv], {
      cwd,
      env: environment,
      stdin: input === undefined ? "ignore" : Bun.file(input),
      stdout: "ignore",
      stderr: Bun.file(join(boxFolder(box.name), log)),
      // It outlives this process.
      detached: true,
    })
    child.unref()
    return identityOf(child.pid)
  }

  /** Resolves with a text if the sandbox does not start. */
  const start = async (box: Box): Promise<string | undefined> => {
    const own = modeOf(box)
    groupOf(box.name).prepare(box.resources)
    const helpers = own.helpers(box).map((launch) => spawn(box, launch, "helper.log"))
    // Before the sandbox itself: a crash in between leaves processes that are found and ended.
    write({ ...box, helpers })
    const process = spawn(box, own.launch(box), "runner.log")
    const started = { ...box, isFrozen: false, process, helpers }
    write(started)
    return own.untilStarted(started)
  }

  /**
   * Resolves when no process runs any more. False: some still did after the time limit, and all continue.
   * A process that waits for its file system in user space cannot stop once that has stopped, so a try is short and
   * repeated.
   */
  const freeze = async (box: Box): Promise<boolean> => {
    const group = groupOf(box.name)
    const roots = rootsOf(box)
    const until = clock.now() + FREEZE_MS
    while (clock.now() < until) {
      group.freeze(roots)
      const tryUntil = clock.now() + FREEZE_TRY_MS
      while (clock.now() < tryUntil) {
        if (group.isFrozen(roots)) return true
        await sleep(clock, 2)
      }
      group.thaw(roots)
      await sleep(clock, 10)
    }
    return false
  }
  const thaw = (box: Box) => groupOf(box.name).thaw(rootsOf(box))

  const kill = async (box: Box): Promise<boolean> => {
    const group = groupOf(box.name)
    const roots = rootsOf(box)
    const until = clock.now() + KILL_MS
    // Repeated: a process that has just been started may not have joined its group yet.
    while (roots.some(isAlive) && clock.now() < until) {
      group.kill(roots)
      await sleep(clock, 10)
    }
    if (roots.some(isAlive)) return false
    group.kill(roots)
    for (let attempt = 0; attempt < 50; attempt++) {
      try {
        group.remove()
        return true
      } catch {
        // Processes of the group are still being reaped.
        await sleep(clock, 20)
      }
    }
    return false
  }

  const remove = (box: Box) => {
    const own = box.mode === mode.kind ? mode : plain
    own.removeFiles(
      box,
      all().filter(({ name }) => name !== box.name),
    )
    rmSync(boxFolder(box.name), { recursive: true, force: true })
  }

  const infoOf = (box: Box): SandboxInfo => ({
    ref: box.name,
    state: isRunning(box) ? (box.isFrozen ? "paused" : "running") : "stopped",
    session: box.session,
    generation: box.generation,
    createdAt: box.createdAt,
    expiresAt: undefined,
  })

  return {
    name: "local",
    can: {
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: mode.can.volumes,
      uniqueNames: true,
      limits: mode.can.limits,
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      for (const box of all())
        if (box.deployment === deployment && (session === undefined || box.session === session))
          yield infoOf(box)
    },
    look: async (ref) => {
      const box = read(ref)
      return box ? { is: "ok", value: infoOf(box) } : missing
    },
    create: async (spec) => {
      if (spec.volumes.length > 0 && !mode.can.volumes)
        return { is: "refused", why: "local sandboxes have volumes only with isolation" }
      if (Object.keys(spec.resources).length > 0 && !mode.can.limits)
        return { is: "refused", why: "local sandboxes have limits only with isolation and cgroups" }
      const folder = boxFolder(spec.name)
      if (existsSync(folder)) return { is: "unknown", why: `the name ${spec.name} is taken` }
      mkdirSync(folder, { mode: 0o700 })
      const empty: Box = {
        name: spec.name,
        session: spec.session,
        generation: spec.generation,
        deployment: spec.labels.deployment,
        createdAt: clock.now(),
        port: freePort(),
        isFrozen: false,
        environment: spec.environment,
        mode: mode.kind,
        resources: { ...spec.resources },
        disk: "overlay",
        layers: [],
        volumes: [],
        helpers: [],
      }
      // Before the process exists: a crash in between leaves a sandbox that is found and ended.
      write(empty)
      const prepared = await mode.prepare(spec, empty)
      if (prepared.is !== "ok") {
        rmSync(folder, { recursive: true, force: true })
        return prepared
      }
      const box = { ...empty, ...prepared.value }
      const problem = await start(box)
      if (problem === undefined) return { is: "ok", value: { ref: spec.name } }
      const failed = read(spec.name)
      if (failed && (await kill(failed))) remove(failed)
      return { is: "refused", why: problem }
    },
    pause: async (ref) => {
      const box = read(ref)
      if (!box) return missing
      if (isRunning(box) && !(await freeze(box)))
        return { is: "unknown", why: "the processes of the sandbox have not stopped yet" }
      write({ ...box, isFrozen: true })
      return ok
    },
    resume: async (ref) => {
      const box = read(ref)
      if (!box) return missing
      if (isRunning(box)) {
        thaw(box)
        write({ ...box, isFrozen: false })
        return { is: "ok", value: {} }
      }
      await kill(box)
      const problem = await start(box)
      return problem === undefined ? { is: "ok", value: {} } : { is: "unknown", why: problem }
    },
    snapshot: async (ref, kind, limit) => {
      if (kind === "memory") throw new UnsupportedError("local", "snapshots of memory")
      const box = read(ref)
      if (!box) return missing
      const id = `${ref}-${clock.now()}`
      const isWorking = isRunning(box) && !box.isFrozen
      // Frozen while it is copied: the copy is one moment of the disk.
      try {
        if (isWorking && !(await freeze(box)))
          return { is: "unknown", why: "the processes of the sandbox have not stopped yet" }
        await modeOf(box).takeSnapshot(box, id, limit)
      } finally {
        if (isWorking) thaw(box)
      }
      return { is: "ok", value: { id } }
    },
    listSnapshots: async function* ({ deployment }) {
      yield* mode.listSnapshots(deployment)
      if (mode !== plain) yield* plain.listSnapshots(deployment)
    },
    removeSnapshot: async (snapshot) => {
      mode.removeSnapshot(snapshot, all())
      plain.removeSnapshot(snapshot, [])
      return ok
    },
    terminate: async (ref) => {
      const box = read(ref)
      if (!box) return ok
      if (!(await kill(box)))
        return { is: "unknown", why: "the processes of the sandbox have not ended yet" }
      remove(box)
      return ok
    },
    keepAlive: async (ref) => (read(ref) ? ok : missing),
    address: async (ref) => {
      const box = read(ref)
      return box
        ? { is: "ok", value: { url: `http://127.0.0.1:${box.port}`, headers: {} } }
        : missing
    },
    exec: async (ref, command, limit) => {
      const box = read(ref)
      if (!box) return missing
      // The start of an image is the runner of this program here.
      if (command.argv[0] === "/start.sh") {
        await kill(box)
        const problem = await start(box)
        if (problem !== undefined) return { is: "unknown", why: problem }
        return { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
      }
      return modeOf(box).exec(box, command, limit, groupOf(ref).prefix(box.resources))
    },
    removeVolume: async (name) => {
      mode.removeVolume(name)
      return ok
    },
    health: async () => ok,
  }
}

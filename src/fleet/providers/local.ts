/**
 * Sandboxes on this machine: each is a runner process with a disk of its own. They outlive the fleet's process, which finds
 * them again by the files it wrote. With `isolated` they neither see each other nor this machine; see docs/deploy.md.
 */
import type { Clock } from "../../lib/clock.ts"
import { shortDigest } from "../../lib/digest.ts"
import { freePort } from "../../lib/free-port.ts"
import { createInOrder } from "../../lib/in-order.ts"
import {
  limitNames,
  type ProviderResult,
  type SandboxInfo,
  type SandboxProvider,
  UnsupportedError,
} from "./contract.ts"
import { boxProcesses } from "./local-box-processes.ts"
import { openBoxes } from "./local-boxes.ts"
import { type Cgroups, findCgroups } from "./local-cgroups.ts"
import { localDisks, refusalOfCopy } from "./local-disks.ts"
import { isolatedMode, type IsolatedModeOptions } from "./local-isolated.ts"
import { plainMode } from "./local-plain.ts"
import { isAlive, joining, processGroup } from "./local-processes.ts"
import { type Box, type BoxMode, missing, ok } from "./local-record.ts"

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

const notEnded = {
  is: "unknown",
  why: "the processes of the sandbox have not ended yet",
} as const

export const createLocalProvider = (options: LocalProviderOptions): SandboxProvider => {
  const { root, self, clock, isolated } = options
  const cgroups = options.cgroups ?? findCgroups()
  const boxes = openBoxes(root)
  const plain = plainMode({ root, self, now: clock.now })
  const mode: BoxMode = isolated
    ? isolatedMode({ ...isolated, root, self, clock, hasLimits: cgroups.limits !== undefined })
    : plain

  // Groups of two fleets on one machine have different names.
  const fleetId = shortDigest(root, 10)
  const groupOf = (name: string) => processGroup(cgroups, `${fleetId}-${name}`)
  /** A sandbox keeps the mode in which it was made, also if the fleet has another one now. */
  const modeOf = (box: Box): BoxMode => {
    if (box.mode === mode.kind) return mode
    if (box.mode === "plain") return plain
    throw new Error(`${box.name} is isolated, and this fleet runs without isolation`)
  }

  /** The process that made its files was killed before they were complete: there is no sandbox to be started. */
  const isHalfMade = ({ maker }: Box) => maker !== undefined && !isAlive(maker)
  const processes = boxProcesses({ boxes, clock, groupOf, modeOf })
  const { isRunning, start, freeze, thaw, kill } = processes

  const lanes = new Map<string, ReturnType<typeof createInOrder>>()
  /** One operation on a sandbox at a time: what one of them has frozen is not thawed by another. */
  const inOrder = <Result>(ref: string, work: () => Promise<Result>): Promise<Result> => {
    const lane = lanes.get(ref) ?? createInOrder()
    lanes.set(ref, lane)
    return lane(work)
  }

  /** A terminate was cut off after the disk had become the snapshot. */
  const isKept = (box: Box) => box.ending !== undefined && modeOf(box).isDiskKept?.(box) === true
  /**
   * A sandbox that was to end goes on. Its snapshot becomes a copy while its processes do not run, so that the snapshot
   * stays what it was.
   */
  const withoutEnding = async (box: Box): Promise<Box> => {
    if (!box.ending) return box
    if (isKept(box)) {
      modeOf(box).keepDisk?.(box)
      return box
    }
    if (isRunning(box) && !(await freeze(box)))
      throw new Error("the processes of the sandbox have not stopped yet")
    await modeOf(box).takeSnapshot(box, box.ending.id, new AbortController().signal)
    const next: Box = { ...box, ending: undefined }
    boxes.write(next)
    return next
  }
  const holderOf = (snapshot: string) => boxes.all().find(({ ending }) => ending?.id === snapshot)

  const remove = (box: Box) => {
    const own = box.mode === mode.kind ? mode : plain
    own.removeFiles(
      box,
      boxes.all().filter(({ name }) => name !== box.name),
    )
    boxes.remove(box.name)
  }

  const pause = async (box: Box): Promise<ProviderResult<void>> => {
    if (isRunning(box) && !(await freeze(box)))
      return { is: "unknown", why: "the processes of the sandbox have not stopped yet" }
    try {
      boxes.write({ ...box, isFrozen: true })
      return ok
    } catch (error) {
      // Nobody would let it go on: it does not count as paused.
      thaw(box)
      throw error
    }
  }
  const disks = localDisks({ root, boxes, processes, modeOf, pause, inOrder })
  const stateOf = (box: Box): SandboxInfo["state"] => {
    if (isRunning(box)) return box.isFrozen ? "paused" : "running"
    return box.maker && !isHalfMade(box) ? "starting" : "stopped"
  }
  const infoOf = (box: Box): SandboxInfo => ({
    ref: box.name,
    state: stateOf(box),
    session: box.session,
    generation: box.generation,
    createdAt: box.createdAt,
    expiresAt: undefined,
  })

  const provider: SandboxProvider = {
    name: "local",
    can: {
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: mode.can.volumes,
      uniqueNames: true,
      limits: mode.can.limits ? limitNames : [],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      for (const box of boxes.all())
        if (box.deployment === deployment && (session === undefined || box.session === session))
          yield infoOf(box)
    },
    look: async (ref) => {
      const box = boxes.read(ref)
      return box ? { is: "ok", value: infoOf(box) } : missing
    },
    create: async (spec) => {
      if (spec.volumes.length > 0 && !mode.can.volumes)
        return { is: "refused", why: "local sandboxes have volumes only with isolation" }
      if (Object.keys(spec.resources).length > 0 && !mode.can.limits)
        return { is: "refused", why: "local sandboxes have limits only with isolation and cgroups" }
      const empty: Box = {
        name: spec.name,
        session: spec.session,
        generation: spec.generation,
        deployment: spec.labels.deployment,
        createdAt: clock.now(),
        port: freePort(),
        maker: boxes.maker,
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
      if (!boxes.add(empty)) return { is: "unknown", why: `the name ${spec.name} is taken` }
      const prepare = async () => {
        const first = await mode.prepare(spec, empty)
        const holder = first.is === "missing" ? holderOf(spec.image.id) : undefined
        if (!holder) return first
        await inOrder(holder.name, () => withoutEnding(holder))
        return mode.prepare(spec, empty)
      }
      const prepared = await prepare().catch((error: unknown) => {
        remove(empty)
        throw error
      })
      if (prepared.is !== "ok") {
        boxes.remove(spec.name)
        return prepared
      }
      const box: Box = { ...empty, ...prepared.value, maker: undefined }
      const problem = await start(box)
      if (problem === undefined) return { is: "ok", value: { ref: spec.name } }
      const failed = boxes.read(spec.name)
      if (failed && (await kill(failed))) remove(failed)
      return { is: "refused", why: problem }
    },
    pause: async (ref) => {
      const box = boxes.read(ref)
      return box ? pause(box) : missing
    },
    resume: async (ref) => {
      const found = boxes.read(ref)
      if (!found) return missing
      const box = await withoutEnding(found)
      if (isKept(box)) {
        remove(box)
        return missing
      }
      if (isRunning(box)) {
        thaw(box)
        boxes.write({ ...box, isFrozen: false })
        return { is: "ok", value: {} }
      }
      if (isHalfMade(box)) {
        remove(box)
        return missing
      }
      if (!(await kill(box))) return notEnded
      const problem = await start(box)
      return problem === undefined ? { is: "ok", value: {} } : { is: "unknown", why: problem }
    },
    snapshot: async (ref, kind, limit, how) => {
      if (kind === "memory") throw new UnsupportedError("local", "snapshots of memory")
      const box = boxes.read(ref)
      if (!box || isHalfMade(box)) return missing
      const id = `${ref}-${clock.now()}`
      if (how?.ends === true && modeOf(box).canKeepDisk?.(box) === true) {
        const ending = box.ending ?? { id, at: clock.now() }
        // First the record: after a crash the sandbox counts as paused, and a resume continues it.
        boxes.write({ ...box, isFrozen: true, ending })
        if (!isRunning(box) || (await freeze(box)))
          return { is: "ok", value: { id: ending.id, isPaused: true } }
        boxes.write(box)
        return { is: "unknown", why: "the processes of the sandbox have not stopped yet" }
      }
      const full = await refusalOfCopy(root, disks.report(ref)?.usedBytes ?? 0)
      if (full !== undefined) return { is: "unknown", why: full }
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
      for (const { ending, deployment: own } of boxes.all())
        if (ending && own === deployment) yield { id: ending.id, createdAt: ending.at }
    },
    removeSnapshot: async (snapshot) => {
      const holder = holderOf(snapshot)
      if (holder) boxes.write({ ...holder, ending: undefined })
      mode.removeSnapshot(snapshot, boxes.all())
      plain.removeSnapshot(snapshot, [])
      return ok
    },
    terminate: async (ref) => {
      const box = boxes.read(ref)
      if (!box) return ok
      if (!(await kill(box))) return notEnded
      if (box.ending) modeOf(box).keepDisk?.(box)
      remove(box)
      lanes.delete(ref)
      return ok
    },
    keepAlive: async (ref) => (boxes.read(ref) ? ok : missing),
    address: async (ref) => {
      const box = boxes.read(ref)
      return box
        ? { is: "ok", value: { url: `http://127.0.0.1:${box.port}`, headers: {} } }
        : missing
    },
    exec: async (ref, command, limit) => {
      const box = boxes.read(ref)
      if (!box || isHalfMade(box)) return missing
      // The start of an image is the runner of this program here.
      if (command.argv[0] === "/start.sh") {
        const next = await withoutEnding(box)
        if (isKept(next)) return missing
        // A second runner beside the first would have its record.
        if (!(await kill(next))) return notEnded
        const problem = await start(next)
        if (problem !== undefined) return { is: "unknown", why: problem }
        return { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
      }
      return modeOf(box).exec(box, command, limit, joining(groupOf(ref).join(box.resources)))
    },
    removeVolume: async (name) => {
      mode.removeVolume(name)
      return ok
    },
    health: async () => ok,
    disks,
  }
  return {
    ...provider,
    pause: (ref) => inOrder(ref, () => provider.pause(ref)),
    resume: (ref, spec) => inOrder(ref, () => provider.resume(ref, spec)),
    snapshot: (ref, ...how) => inOrder(ref, () => provider.snapshot(ref, ...how)),
    terminate: (ref) => inOrder(ref, () => provider.terminate(ref)),
    exec: (ref, command, limit) =>
      command.argv[0] === "/start.sh"
        ? inOrder(ref, () => provider.exec(ref, command, limit))
        : provider.exec(ref, command, limit),
  }
}

/**
 * Sandboxes on this machine: each is a runner process with directories of its own. They outlive the fleet's process, which
 * finds them again by the files it wrote. The processes are not isolated from each other; see docs/deploy.md.
 */
import { freePort } from "../../lib/free-port.ts"
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
import { runCommand } from "./local-command.ts"
import {
  type ProviderResult,
  type SandboxInfo,
  type SandboxProvider,
  type SandboxSpec,
  UnsupportedError,
} from "./contract.ts"
import { findCgroupRoot, identityOf, isAlive, processGroup } from "./local-processes.ts"

export interface LocalProviderOptions {
  /** Holds the files of all sandboxes. */
  readonly root: string
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly clock: Clock
  /** Absent: found on this machine. */
  readonly cgroupRoot?: string | undefined
}

const boxSchema = z.object({
  name: z.string(),
  session: z.string(),
  generation: z.number(),
  deployment: z.string(),
  createdAt: z.number(),
  port: z.number(),
  isFrozen: z.boolean(),
  process: z.object({ pid: z.number(), startTime: z.string() }).optional(),
  environment: z.record(z.string(), z.string()),
})
type Box = z.output<typeof boxSchema>

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const
const KILL_MS = 5000

export const createLocalProvider = (options: LocalProviderOptions): SandboxProvider => {
  const { root, self, clock } = options
  const cgroupRoot = options.cgroupRoot ?? findCgroupRoot()
  const folders = {
    boxes: join(root, "boxes"),
    files: join(root, "files"),
    snapshots: join(root, "snapshots"),
  }
  for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true, mode: 0o700 })

  const boxFile = (name: string) => join(folders.boxes, name, "box.json")
  const groupOf = (name: string) => processGroup(cgroupRoot, name)
  /** The same path in every generation of a session: OpenCode's sessions belong to a directory. */
  const filesOf = (session: string) => join(folders.files, encodeURIComponent(session))
  const ownerFile = (session: string) => join(filesOf(session), "owner")

  const read = (name: string): Box | undefined => {
    if (!/^[\w-]{1,100}$/.test(name) || !existsSync(boxFile(name))) return undefined
    return boxSchema.parse(JSON.parse(readFileSync(boxFile(name), "utf8")))
  }
  /** The environment holds tokens, so the file is for this user only. It is replaced as a whole. */
  const write = (box: Box) => {
    writeFileSync(`${boxFile(box.name)}.new`, JSON.stringify(box), { mode: 0o600 })
    renameSync(`${boxFile(box.name)}.new`, boxFile(box.name))
  }

  const start = (box: Box): Box => {
    const files = filesOf(box.session)
    const group = groupOf(box.name)
    const child = Bun.spawn([...group.prefix, ...self, "run"], {
      cwd: join(files, "workspace"),
      env: environmentOf(box),
      stdin: "ignore",
      stdout: "ignore",
      stderr: Bun.file(join(folders.boxes, box.name, "runner.log")),
      // It outlives this process.
      detached: true,
    })
    child.unref()
    const started = { ...box, isFrozen: false, process: identityOf(child.pid) }
    write(started)
    return started
  }

  const environmentOf = (box: Box): Record<string, string> => ({
    ...box.environment,
    WORK_DIR: join(filesOf(box.session), "workspace"),
    SANDPIPER_STATE_DIR: join(filesOf(box.session), "state"),
    GATEWAY_HOST: "127.0.0.1",
    GATEWAY_PORT: String(box.port),
    OPENCODE_URL: "http://127.0.0.1:0",
  })

  const prepareFiles = (spec: SandboxSpec): ProviderResult<void> => {
    const files = filesOf(spec.session)
    rmSync(files, { recursive: true, force: true })
    if (spec.image.kind === "snapshot") {
      const snapshot = join(folders.snapshots, spec.image.id)
      if (!/^[\w-]+$/.test(spec.image.id) || !existsSync(snapshot)) return missing
      cpSync(snapshot, files, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
    }
    mkdirSync(join(files, "workspace"), { recursive: true })
    mkdirSync(join(files, "state"), { recursive: true, mode: 0o700 })
    writeFileSync(ownerFile(spec.session), spec.name)
    return ok
  }

  const kill = async (box: Box): Promise<boolean> => {
    const group = groupOf(box.name)
    const identity = box.process
    if (identity !== undefined) {
      const until = clock.now() + KILL_MS
      // Repeated: a process that has just been started may not have joined its group yet.
      while (isAlive(identity) && clock.now() < until) {
        group.kill(identity)
        await sleep(clock, 10)
      }
      group.kill(identity)
      if (isAlive(identity)) return false
    }
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

  const infoOf = (box: Box): SandboxInfo => ({
    ref: box.name,
    state: box.process && isAlive(box.process) ? (box.isFrozen ? "paused" : "running") : "stopped",
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
      volumes: false,
      uniqueNames: true,
      limits: false,
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      for (const name of readdirSync(folders.boxes)) {
        const box = read(name)
        if (box?.deployment === deployment && (session === undefined || box.session === session))
          yield infoOf(box)
      }
    },
    look: async (ref) => {
      const box = read(ref)
      return box ? { is: "ok", value: infoOf(box) } : missing
    },
    create: async (spec) => {
      if (spec.volumes.length > 0 || Object.keys(spec.resources).length > 0)
        return { is: "refused", why: "processes without isolation have no volumes and no limits" }
      const folder = join(folders.boxes, spec.name)
      if (existsSync(folder)) return { is: "unknown", why: `the name ${spec.name} is taken` }
      mkdirSync(folder, { mode: 0o700 })
      const box: Box = {
        name: spec.name,
        session: spec.session,
        generation: spec.generation,
        deployment: spec.labels.deployment,
        createdAt: clock.now(),
        port: freePort(),
        isFrozen: false,
        environment: spec.environment,
      }
      // Before the process exists: a crash in between leaves a sandbox that is found and ended.
      write(box)
      const prepared = prepareFiles(spec)
      if (prepared.is !== "ok") {
        rmSync(folder, { recursive: true, force: true })
        return prepared
      }
      start(box)
      return { is: "ok", value: { ref: spec.name } }
    },
    pause: async (ref) => {
      const box = read(ref)
      if (!box) return missing
      if (box.process && isAlive(box.process)) groupOf(ref).freeze(box.process)
      write({ ...box, isFrozen: true })
      return ok
    },
    resume: async (ref) => {
      const box = read(ref)
      if (!box) return missing
      if (box.process && isAlive(box.process)) {
        groupOf(ref).thaw(box.process)
        write({ ...box, isFrozen: false })
      } else start(box)
      return { is: "ok", value: {} }
    },
    snapshot: async (ref, kind) => {
      if (kind === "memory") throw new UnsupportedError("local", "snapshots of memory")
      const box = read(ref)
      if (!box) return missing
      const id = `${ref}-${clock.now()}`
      const running = box.process && !box.isFrozen && isAlive(box.process) ? box.process : undefined
      // Frozen while it is copied: the copy is one moment of the disk.
      if (running) groupOf(ref).freeze(running)
      try {
        const copy = `${join(folders.snapshots, id)}.part`
        cpSync(filesOf(box.session), copy, {
          recursive: true,
          verbatimSymlinks: true,
          preserveTimestamps: true,
          filter: (path) => !path.endsWith(".sock"),
        })
        renameSync(copy, join(folders.snapshots, id))
      } finally {
        if (running) groupOf(ref).thaw(running)
      }
      return { is: "ok", value: { id } }
    },
    removeSnapshot: async (snapshot) => {
      if (/^[\w-]+$/.test(snapshot))
        rmSync(join(folders.snapshots, snapshot), { recursive: true, force: true })
      return ok
    },
    terminate: async (ref) => {
      const box = read(ref)
      if (!box) return ok
      if (!(await kill(box))) return { is: "unknown", why: "its processes have not ended yet" }
      // The files belong to the newest sandbox of the session.
      const owner = ownerFile(box.session)
      if (existsSync(owner) && readFileSync(owner, "utf8") === ref)
        rmSync(filesOf(box.session), { recursive: true, force: true })
      rmSync(join(folders.boxes, ref), { recursive: true, force: true })
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
        start(box)
        return { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
      }
      const [program = "", ...rest] = command.argv
      return runCommand({
        argv: program === "sandpiper" ? [...self, ...rest] : [program, ...rest],
        cwd: command.cwd ?? join(filesOf(box.session), "workspace"),
        environment: { ...environmentOf(box), ...command.environment },
        limit,
      })
    },
    removeVolume: async () => ok,
    health: async () => ok,
  }
}

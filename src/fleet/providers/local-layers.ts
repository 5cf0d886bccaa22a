/**
 * The disks of isolated sandboxes: read-only layers, and the snapshots that name them. A snapshot is what a sandbox has
 * written, as a layer on top of the layers it was started from.
 */
import {
  chmodSync,
  chownSync,
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
import { runCommand } from "../../lib/run-command.ts"
import type { SnapshotInfo } from "./contract.ts"
import { type DiskKind, groupText, hostsText, passwdText, systemDirectories } from "./local-box.ts"
import { draftOf, isDraft, namelessDraftOf, removeLeftDrafts, removeTree } from "./local-drafts.ts"
import { replaceFile } from "../../lib/replace-file.ts"

/** A snapshot on top of so many layers is a copy of all of them. */
const MOST_LAYERS = 20
const BASE = "base"

const snapshotSchema = z.object({
  layers: z.array(z.string()).readonly(),
  /** So many of the lowest layers are of no session. Absent: all. */
  shared: z.number().optional(),
  /** Snapshots of earlier versions have neither: they are in no list. */
  deployment: z.string().optional(),
  createdAt: z.number().optional(),
})

export interface Layers {
  /** Creates the disk of a new sandbox. Returns its layers, the topmost first; undefined: there is no such snapshot. */
  readonly createDisk: (
    disk: string,
    kind: DiskKind,
    snapshot: string | undefined,
  ) => Promise<readonly string[] | undefined>
  readonly pathsOf: (layers: readonly string[]) => readonly string[]
  /** How many of the lowest layers of a snapshot are of no session. Undefined: all. */
  readonly sharedOf: (snapshot: string) => number | undefined
  readonly takeSnapshot: (
    id: string,
    from: {
      readonly disk: string
      readonly layers: readonly string[]
      /** The whole disk as the running sandbox sees it. */
      readonly merged: string | undefined
      readonly shared?: number | undefined
      /** The layers hold much that the sandbox has deleted: the snapshot is a copy of what is left. */
      readonly isWasteful?: boolean
      readonly deployment: string
      readonly createdAt: number
    },
    limit: AbortSignal,
  ) => Promise<void>
  /** Makes the disk of an ended sandbox a snapshot, by a rename. Can be repeated after a crash. */
  readonly keepDisk: (
    id: string,
    from: {
      readonly disk: string
      readonly layers: readonly string[]
      readonly shared?: number | undefined
      readonly deployment: string
      readonly createdAt: number
    },
  ) => void
  /** More layers would be too many: the next snapshot has to be a copy. */
  readonly isFull: (layers: readonly string[]) => boolean
  readonly removeSnapshot: (id: string) => void
  readonly hasSnapshot: (id: string) => boolean
  readonly listSnapshots: (deployment: string) => readonly SnapshotInfo[]
  /** Deletes layers that neither a snapshot nor one of these sandboxes uses. */
  readonly collect: (used: readonly string[]) => void
}

/** A disk of many files takes minutes to copy. */
const COPY_MS = 30 * 60_000

const run = async (program: string, args: readonly string[], limit?: AbortSignal) => {
  const { exitCode, stderr } = await runCommand(program, args, {
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    timeoutMs: COPY_MS,
    signal: limit,
  })
  if (exitCode !== 0)
    throw new Error(`${program} failed: ${stderr.trim().slice(0, 300) || "it was ended"}`)
}

/** Keeps owners, links, extended attributes and the marks of deleted files. Other mounts are left out. */
const copyTree = (
  from: string,
  to: string,
  within: readonly string[],
  limit?: AbortSignal,
): Promise<void> => {
  const [program, ...args] = [...within, "cp", "-a", "-x", "--reflink=auto", `${from}/.`, to]
  return run(program, args, limit)
}

/** The empty directories of a root file system, and a user for the processes in it. */
const writeBase = (folder: string): void => {
  const directories = [
    "usr",
    "etc",
    "proc",
    "dev",
    "run",
    "tmp",
    "root",
    "opt",
    "srv",
    "mnt",
    "workspace",
    "var",
    "var/lib",
    "var/lib/sandpiper",
    "var/tmp",
    "var/log",
    "home",
    "home/agent",
  ]
  for (const name of directories) mkdirSync(join(folder, name), { mode: 0o755 })
  for (const name of ["tmp", "var/tmp"]) chmodSync(join(folder, name), 0o1777)
  chmodSync(join(folder, "var/lib/sandpiper"), 0o700)
  // This machine's own are mounted on them.
  for (const name of systemDirectories)
    if (existsSync(`/${name}`)) mkdirSync(join(folder, name), { mode: 0o755 })
  const etc = {
    passwd: passwdText,
    group: groupText,
    hosts: hostsText,
    hostname: "sandbox\n",
  }
  for (const [name, text] of Object.entries(etc)) writeFileSync(join(folder, "etc", name), text)
}

export const createBase = async (folder: string, owner: number | undefined): Promise<void> => {
  mkdirSync(folder, { mode: 0o755 })
  writeBase(folder)
  if (owner !== undefined) await run("chown", ["-hR", `${owner}:${owner}`, folder])
}

/** The kernel's work directory has no permissions, which only root ignores. */
export const removeDisk = (disk: string, within: readonly string[] = []): void => {
  const inner = join(disk, "work", "work")
  if (existsSync(inner)) chmodSync(inner, 0o700)
  removeTree(disk, within)
}

/** `within`: see `removeTree`. */
export const openLayers = (
  root: string,
  owner: number | undefined,
  within: readonly string[] = [],
): Layers => {
  const layersFolder = join(root, "layers")
  const snapshotsFolder = join(root, "snapshots")
  for (const folder of [layersFolder, snapshotsFolder])
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  removeLeftDrafts(layersFolder, within)
  const layerPath = (id: string) => join(layersFolder, id)
  const snapshotFile = (id: string) => join(snapshotsFolder, `${id}.json`)

  const base = async (): Promise<string> => {
    if (existsSync(layerPath(BASE))) return BASE
    const draft = draftOf(layerPath(BASE))
    await createBase(draft, owner)
    if (existsSync(layerPath(BASE))) rmSync(draft, { recursive: true, force: true })
    else renameSync(draft, layerPath(BASE))
    return BASE
  }
  const read = (id: string) => {
    if (!/^[\w-]+$/.test(id) || !existsSync(snapshotFile(id))) return undefined
    return snapshotSchema.parse(JSON.parse(readFileSync(snapshotFile(id), "utf8")))
  }
  const record = (id: string, snapshot: z.output<typeof snapshotSchema>) => {
    replaceFile(snapshotFile(id), JSON.stringify(snapshot), 0o644)
  }
  const makeFolder = (path: string) => {
    mkdirSync(path, { recursive: true, mode: 0o755 })
    if (owner !== undefined) chownSync(path, owner, owner)
  }
  const collect = (used: readonly string[]) => {
    const named = readdirSync(snapshotsFolder).flatMap(
      (name) => read(name.replace(/\.json$/, ""))?.layers ?? [],
    )
    const kept = new Set([BASE, ...used, ...named])
    removeLeftDrafts(layersFolder, within)
    for (const name of readdirSync(layersFolder))
      if (!kept.has(name) && !isDraft(name)) removeTree(layerPath(name), within)
  }

  return {
    createDisk: async (disk, kind, snapshot) => {
      const layers = snapshot === undefined ? [await base()] : read(snapshot)?.layers
      if (!layers) return undefined
      for (const folder of [disk, join(disk, "upper"), join(disk, "work")]) makeFolder(folder)
      if (kind !== "copy") return layers
      const [only, ...more] = layers
      if (only === undefined || more.length > 0)
        throw new Error("the snapshot has layers, and this machine does not allow overlays")
      await copyTree(layerPath(only), join(disk, "upper"), within)
      return []
    },
    pathsOf: (layers) => layers.map(layerPath),
    sharedOf: (snapshot) => read(snapshot)?.shared,
    takeSnapshot: async (id, from, limit) => {
      const { disk, layers, merged, shared, deployment, createdAt } = from
      if (read(id)) return
      const draft = draftOf(layerPath(id))
      // Left by a copy that was cut off.
      for (const path of [namelessDraftOf(layerPath(id)), layerPath(id)]) removeTree(path, within)
      const isFlat =
        merged !== undefined && (layers.length >= MOST_LAYERS || from.isWasteful === true)
      makeFolder(draft)
      try {
        limit.throwIfAborted()
        await copyTree(isFlat ? merged : join(disk, "upper"), draft, within, limit)
      } catch (error) {
        // The next attempt has another name, and a disk that was full would stay full.
        removeTree(draft, within)
        throw error
      }
      renameSync(draft, layerPath(id))
      const stack = isFlat ? { layers: [id], shared: 0 } : { layers: [id, ...layers], shared }
      record(id, { ...stack, deployment, createdAt })
    },
    keepDisk: (id, { disk, layers, shared, deployment, createdAt }) => {
      if (read(id)) return
      const upper = join(disk, "upper")
      if (existsSync(upper)) renameSync(upper, layerPath(id))
      record(id, { layers: [id, ...layers], shared, deployment, createdAt })
    },
    isFull: (layers) => layers.length >= MOST_LAYERS,
    removeSnapshot: (id) => {
      if (/^[\w-]+$/.test(id)) rmSync(snapshotFile(id), { force: true })
    },
    hasSnapshot: (id) => read(id) !== undefined,
    listSnapshots: (deployment) =>
      readdirSync(snapshotsFolder).flatMap((name) => {
        const id = name.replace(/\.json$/, "")
        const found = read(id)
        return found?.deployment === deployment && found.createdAt !== undefined
          ? [{ id, createdAt: found.createdAt }]
          : []
      }),
    collect,
  }
}

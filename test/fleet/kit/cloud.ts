/**
 * The sandboxes of a cloud that exists only in a test. A sandbox is a directory, and its commands are real processes in
 * it. The doubles of E2B, Daytona and Modal are protocols around this model.
 */
import { cpSync, lstatSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface CloudBox {
  readonly id: string
  readonly name: string
  readonly image: string
  readonly labels: Readonly<Record<string, string>>
  readonly environment: Readonly<Record<string, string>>
  readonly createdAt: number
  readonly folder: string
  /** Where each named volume is mounted. */
  readonly volumes: Readonly<Record<string, string>>
  state: "running" | "paused" | "stopped"
  /** When the cloud pauses or ends it. */
  endAt: number
}

export interface CloudCommand {
  readonly argv: readonly string[]
  readonly cwd?: string | undefined
  readonly environment?: Readonly<Record<string, string>>
  /** By which `kill` finds it. */
  readonly tag?: string | undefined
}

export interface CloudOutput {
  readonly exitCode: number
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
}

export interface Cloud {
  readonly boxes: Map<string, CloudBox>
  readonly volumes: Map<string, string>
  readonly snapshots: Map<string, string>
  /** The ids of the sandboxes whose runner was started by a command, in order. */
  readonly runnerStarts: string[]
  /** Undefined: the image is neither the known one nor a snapshot. */
  readonly create: (
    box: Pick<CloudBox, "name" | "image" | "labels" | "environment"> & {
      readonly volumes?: Readonly<Record<string, string>>
      readonly lifeMs: number
    },
  ) => CloudBox | undefined
  readonly end: (id: string) => boolean
  readonly snapshot: (box: CloudBox, id: string) => void
  readonly removeSnapshot: (id: string) => boolean
  readonly run: (box: CloudBox, command: CloudCommand) => Promise<CloudOutput>
  /** False: no command with this tag runs. */
  readonly kill: (tag: string) => boolean
  /** Tags of the running commands. */
  readonly running: () => readonly string[]
  readonly remove: () => void
}

/** The only image that the cloud has from the start. */
export const CLOUD_IMAGE = "sandpiper-image"

/** A snapshot has no sockets. */
const isKept = (path: string): boolean => {
  const found = lstatSync(path, { throwIfNoEntry: false })
  return (
    found?.isFile() === true || found?.isDirectory() === true || found?.isSymbolicLink() === true
  )
}

export const createCloud = (options: { readonly idOf: (count: number) => string }): Cloud => {
  const root = mkdtempSync(join(tmpdir(), "cloud-"))
  const boxes = new Map<string, CloudBox>()
  const volumes = new Map<string, string>()
  const snapshots = new Map<string, string>()
  const runnerStarts: string[] = []
  const processes = new Map<string, Bun.Subprocess>()
  const counter = { boxes: 0 }
  /** A mount path in a command is replaced by this folder, since nothing is mounted. */
  const volumeFolder = (name: string): string => {
    const folder = join(root, `volume-${name}`)
    mkdirSync(folder, { recursive: true })
    return folder
  }

  return {
    boxes,
    volumes,
    snapshots,
    runnerStarts,
    create: ({ lifeMs, ...given }) => {
      const source = snapshots.get(given.image)
      if (given.image !== CLOUD_IMAGE && source === undefined) return undefined
      counter.boxes += 1
      const id = options.idOf(counter.boxes)
      const folder = join(root, `box-${counter.boxes}`)
      if (source === undefined) mkdirSync(folder)
      else cpSync(source, folder, { recursive: true, verbatimSymlinks: true })
      const createdAt = Date.now()
      const box: CloudBox = {
        volumes: {},
        ...given,
        id,
        folder,
        createdAt,
        state: "running",
        endAt: createdAt + lifeMs,
      }
      boxes.set(id, box)
      return box
    },
    end: (id) => {
      const box = boxes.get(id)
      if (!box) return false
      rmSync(box.folder, { recursive: true, force: true })
      return boxes.delete(id)
    },
    snapshot: (box, id) => {
      const folder = join(root, `snapshot-${snapshots.size + 1}-${boxes.size}`)
      cpSync(box.folder, folder, { recursive: true, verbatimSymlinks: true, filter: isKept })
      snapshots.set(id, folder)
    },
    removeSnapshot: (id) => snapshots.delete(id),
    run: async (box, command) => {
      // A sandbox has an image with a runner. This machine has not.
      if (command.argv.some((part) => part.includes("/start.sh"))) {
        runnerStarts.push(box.id)
        return { exitCode: 0, stdout: new Uint8Array(), stderr: new Uint8Array() }
      }
      const mounts = Object.entries(box.volumes)
      const inside = (part: string) =>
        mounts.reduce((text, [path, name]) => text.replaceAll(path, volumeFolder(name)), part)
      const child = Bun.spawn(command.argv.map(inside), {
        cwd: command.cwd ?? box.folder,
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: box.folder,
          ...box.environment,
          ...command.environment,
        },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      })
      if (command.tag !== undefined) processes.set(command.tag, child)
      const [exitCode, stdout, stderr] = await Promise.all([
        child.exited,
        new Response(child.stdout).bytes(),
        new Response(child.stderr).bytes(),
      ])
      if (command.tag !== undefined) processes.delete(command.tag)
      return { exitCode, stdout, stderr }
    },
    kill: (tag) => {
      processes.get(tag)?.kill("SIGKILL")
      return processes.has(tag)
    },
    running: () => [...processes.keys()],
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

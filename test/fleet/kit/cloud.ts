/**
 * The sandboxes of a cloud that exists only in a test. A sandbox is a directory, and its commands are real processes in
 * it. The doubles of E2B, Daytona and Modal are protocols around this model.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
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
  readonly remove: () => void
}

/** The only image that the cloud has from the start. */
export const CLOUD_IMAGE = "sandpiper-image"

export const createCloud = (options: {
  readonly idOf: (count: number) => string
}): Cloud => {
  const root = mkdtempSync(join(tmpdir(), "cloud-"))
  const boxes = new Map<string, CloudBox>()
  const volumes = new Map<string, string>()
  const snapshots = new Map<string, string>()
  const counter = { boxes: 0 }

  return {
    boxes,
    volumes,
    snapshots,
    create: ({ lifeMs, ...given }) => {
      const source = snapshots.get(given.image)
      if (given.image !== CLOUD_IMAGE && source === undefined) return undefined
      counter.boxes += 1
      const id = options.idOf(counter.boxes)
      const folder = join(root, `box-${counter.boxes}`)
      if (source === undefined) mkdirSync(folder)
      else cpSync(source, folder, { recursive: true })
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
      cpSync(box.folder, folder, { recursive: true })
      snapshots.set(id, folder)
    },
    removeSnapshot: (id) => snapshots.delete(id),
    run: async (box, command) => {
      const child = Bun.spawn([...command.argv], {
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
      const [exitCode, stdout, stderr] = await Promise.all([
        child.exited,
        new Response(child.stdout).bytes(),
        new Response(child.stderr).bytes(),
      ])
      return { exitCode, stdout, stderr }
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

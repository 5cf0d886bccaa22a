/** The record of a local sandbox, and what differs between sandboxes with and without isolation. */
import { join } from "node:path"
import { z } from "zod"
import type { DiskSize } from "../core/disk-quota.ts"
import type {
  ProviderResult,
  SandboxCommand,
  SandboxCommandResult,
  SandboxSpec,
  SnapshotInfo,
} from "./contract.ts"

const identitySchema = z.object({ pid: z.number(), startTime: z.string() })

export const boxSchema = z.object({
  name: z.string(),
  session: z.string(),
  generation: z.number(),
  deployment: z.string(),
  createdAt: z.number(),
  port: z.number(),
  /** The process that makes its files. Absent: they are complete. */
  maker: identitySchema.optional(),
  isFrozen: z.boolean(),
  process: identitySchema.optional(),
  environment: z.record(z.string(), z.string()),
  mode: z.enum(["plain", "isolated"]).default("plain"),
  resources: z
    .object({
      cpu: z.number().optional(),
      memoryMiB: z.number().optional(),
      pids: z.number().optional(),
    })
    .default({}),
  /** Of an isolated sandbox. */
  disk: z.enum(["overlay", "fuse", "copy"]).default("overlay"),
  layers: z.array(z.string()).default([]),
  /** So many of the lowest layers are of no session. Absent: all. */
  sharedLayers: z.number().optional(),
  volumes: z
    .array(z.object({ name: z.string(), path: z.string(), readOnly: z.boolean() }))
    .default([]),
  /** The port of its own proxy to the network, if its network has a policy. */
  proxyPort: z.number().optional(),
  /** The snapshot that its disk becomes when it is terminated. Its processes do not run meanwhile. */
  ending: z.object({ id: z.string(), at: z.number() }).optional(),
  /** Processes that belong to it and run outside it. */
  helpers: z.array(identitySchema).default([]),
})
export type Box = z.output<typeof boxSchema>

/** Below the folder of its record: what the fleet tells the sandbox, which reads it there and cannot write. */
export const reportFolderOf = (folder: string): string => join(folder, "told")
export const REPORT = "disk.json"

/** A program that is started for a sandbox. */
export interface Launch {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  /** The file that is its standard input. */
  readonly input?: string
}

export interface BoxMode {
  readonly kind: Box["mode"]
  readonly can: { readonly volumes: boolean; readonly limits: boolean }
  /** Makes the files of a new sandbox. The result is what its record says about them. */
  readonly prepare: (spec: SandboxSpec, box: Box) => Promise<ProviderResult<Partial<Box>>>
  /** `joinGroup`: the shell command that puts the launcher into the sandbox's group of processes. */
  readonly launch: (box: Box, joinGroup: string | undefined) => Launch
  readonly helpers: (box: Box) => readonly Launch[]
  /** Resolves when the sandbox has its own processes; with a text if it does not start. */
  readonly untilStarted: (box: Box) => Promise<string | undefined>
  readonly exec: (
    box: Box,
    command: SandboxCommand,
    limit: AbortSignal,
    prefix: readonly string[],
  ) => Promise<ProviderResult<SandboxCommandResult>>
  /** What the sandbox has written, its volumes included. `isHeld`: its processes do not run. */
  readonly measure: (box: Box, limit: AbortSignal, isHeld: boolean) => Promise<DiskSize>
  /**
   * Its processes without its runner, by their numbers on this machine. `members`: those of its group. `sparesAgent`: without OpenCode,
   * too.
   */
  readonly programsOf: (
    box: Box,
    members: readonly number[],
    sparesAgent: boolean,
  ) => readonly number[]
  readonly takeSnapshot: (box: Box, id: string, limit: AbortSignal) => Promise<void>
  /** Makes the disk of a sandbox without processes its snapshot `ending`, without a copy. Absent: not possible. */
  readonly keepDisk?: (box: Box) => void
  /** Whether `keepDisk` is possible for this sandbox. */
  readonly canKeepDisk?: (box: Box) => boolean
  /** The disk of the sandbox is its snapshot already. */
  readonly isDiskKept?: (box: Box) => boolean
  /** Snapshots of sandboxes of this deployment. */
  readonly listSnapshots: (deployment: string) => readonly SnapshotInfo[]
  /** `boxes`: all sandboxes. */
  readonly removeSnapshot: (id: string, boxes: readonly Box[]) => void
  readonly removeVolume: (name: string) => void
  /** After its processes have ended. `others`: all other sandboxes. */
  readonly removeFiles: (box: Box, others: readonly Box[]) => void
}

export const ok = { is: "ok", value: undefined } as const
export const missing = { is: "missing" } as const

/** The disks of sandboxes of this machine: how full they are, and how what fills one is stopped. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { errorCode } from "../../lib/error-code.ts"
import { replaceFile } from "../../lib/replace-file.ts"
import type { DiskReport } from "../core/disk-notes.ts"
import { type DiskAction, type DiskRoom, type DiskSize, reserveOf } from "../core/disk-quota.ts"
import type { ProviderResult, SandboxDisks } from "./contract.ts"
import type { BoxProcesses } from "./local-box-processes.ts"
import type { Boxes } from "./local-boxes.ts"
import { endProcesses } from "./local-processes.ts"
import { type Box, type BoxMode, missing, reportFolderOf, REPORT } from "./local-record.ts"

const reportSchema = z.object({
  state: z.enum(["ok", "near", "full"]),
  usedBytes: z.number(),
  limitBytes: z.number().optional(),
  usedFiles: z.number(),
  limitFiles: z.number().optional(),
  ceilingBytes: z.number().optional(),
  ceilingFiles: z.number().optional(),
  advice: z.string().optional(),
})

/** Processes that do not run wait for the measurement, and people for them. */
const HELD_MS = 30_000
/** Those that were started while the others were ended. */
const ROUNDS = 20

type Decide = (use: DiskSize) => DiskAction

export interface LocalDisksOptions {
  /** Holds the files of all sandboxes. */
  readonly root: string
  readonly boxes: Boxes
  readonly processes: BoxProcesses
  readonly modeOf: (box: Box) => BoxMode
  /** Also for one that stands already. */
  readonly pause: (box: Box) => Promise<ProviderResult<void>>
  /** One operation on a sandbox at a time. */
  readonly inOrder: <Result>(ref: string, work: () => Promise<Result>) => Promise<Result>
}

const roomOf = async (root: string): Promise<DiskRoom> => {
  const { bsize, bavail, blocks, ffree, files } = await statfs(root)
  return {
    free: { bytes: bavail * bsize, inodes: ffree },
    total: { bytes: blocks * bsize, inodes: files },
  }
}

/** Why there is no room for a copy of this size. Undefined: there is. */
export const refusalOfCopy = async (root: string, bytes: number): Promise<string | undefined> => {
  const room = await roomOf(root)
  if (room.free.bytes - bytes >= reserveOf(room).bytes / 2) return undefined
  return "the disk of this machine has no room for a copy of the sandbox's files"
}

export const localDisks = (options: LocalDisksOptions): SandboxDisks => {
  const { root, boxes, processes, modeOf } = options

  const end = (box: Box, sparesAgent: boolean) => {
    for (let round = 0; round < ROUNDS; round += 1)
      if (!endProcesses(modeOf(box).programsOf(box, processes.members(box), sparesAgent))) return
  }

  const running = (ref: string): ProviderResult<Box> => {
    const box = boxes.read(ref)
    if (!box) return missing
    return box.maker || box.isFrozen || !processes.isRunning(box)
      ? { is: "unknown", why: "the sandbox does not run" }
      : { is: "ok", value: box }
  }

  const act = async (
    box: Box,
    action: DiskAction,
    isHeld: boolean,
  ): Promise<ProviderResult<DiskAction>> => {
    if (action === "continue") return { is: "ok", value: action }
    if (action === "pause") {
      const paused = await options.pause(box)
      return paused.is === "ok" ? { is: "ok", value: action } : paused
    }
    if (!isHeld) await hold(box)
    end(box, action === "end-programs")
    if (!isHeld) release(box)
    return { is: "ok", value: action }
  }

  const markOf = ({ name }: Box) => join(boxes.folder(name), "held")

  const hold = async (box: Box): Promise<boolean> => {
    try {
      writeFileSync(markOf(box), "")
    } catch {
      // On a full disk it is held all the same.
    }
    return processes.freeze(box)
  }
  const release = (box: Box) => {
    processes.thaw(box)
    rmSync(markOf(box), { force: true })
  }

  const checkHeld = async (ref: string, limit: AbortSignal, decide: Decide) => {
    const found = running(ref)
    if (found.is !== "ok") return found
    const isHeld = await hold(found.value)
    let isPaused = false
    try {
      const signal = AbortSignal.any([limit, AbortSignal.timeout(HELD_MS)])
      const action = decide(await modeOf(found.value).measure(found.value, signal, isHeld))
      const done = await act(found.value, action, isHeld)
      isPaused = action === "pause" && done.is === "ok"
      return done
    } finally {
      if (isPaused) rmSync(markOf(found.value), { force: true })
      else release(found.value)
    }
  }

  /** Other operations on the sandbox do not wait for the measurement. */
  const check = async (ref: string, limit: AbortSignal, decide: Decide) => {
    const found = running(ref)
    if (found.is !== "ok") return found
    const action = decide(await modeOf(found.value).measure(found.value, limit, false))
    if (action === "continue") return { is: "ok", value: action } as const
    return options.inOrder(ref, async () => {
      const now = running(ref)
      return now.is === "ok" ? act(now.value, action, false) : now
    })
  }

  return {
    room: () => roomOf(root),
    check: async (ref, { holds, limit }, decide) => {
      try {
        return await (holds
          ? options.inOrder(ref, () => checkHeld(ref, limit, decide))
          : check(ref, limit, decide))
      } catch (error) {
        return { is: "unknown", why: error instanceof Error ? error.message : String(error) }
      }
    },
    recover: () => {
      for (const box of boxes.all()) if (existsSync(markOf(box)) && !box.isFrozen) release(box)
    },
    report: (ref): DiskReport | undefined => {
      try {
        const text = readFileSync(join(reportFolderOf(boxes.folder(ref)), REPORT), "utf8")
        return reportSchema.parse(JSON.parse(text)) as DiskReport
      } catch (error) {
        if (errorCode(error) === "ENOENT") return undefined
        throw error
      }
    },
    setReport: (ref, report) => {
      const folder = reportFolderOf(boxes.folder(ref))
      mkdirSync(folder, { recursive: true, mode: 0o755 })
      replaceFile(join(folder, REPORT), JSON.stringify(report), 0o644)
    },
  }
}

/** What a person, and the agent, read about a full disk: what happened, that nothing is lost, and what to do. Pure. */
import type { DiskNews, DiskSize, Fullness } from "./disk-quota.ts"

/** Of one sandbox, as its status and its own file say. */
export interface DiskReport {
  readonly state: Fullness
  readonly usedBytes: number
  /** Absent: no limit. */
  readonly limitBytes?: number
  readonly usedFiles: number
  readonly limitFiles?: number
  /** What a full sandbox may still use before its agent is ended. */
  readonly ceilingBytes?: number
  readonly ceilingFiles?: number
  /** What to do, for the agent. Absent: nothing. */
  readonly advice?: string
}

const UNITS = ["MiB", "GiB", "TiB"] as const

const sizeText = (bytes: number): string => {
  let value = bytes / 1024 / 1024
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`
}
const countText = (count: number): string => Math.round(count).toLocaleString("en-US")

/** Both are named: millions of small files fill a disk, too. */
const usedText = (use: DiskSize, limit: DiskSize): string =>
  [
    ...(Number.isFinite(limit.bytes) ? [`${sizeText(use.bytes)} of ${sizeText(limit.bytes)}`] : []),
    ...(Number.isFinite(limit.inodes)
      ? [`${countText(use.inodes)} of ${countText(limit.inodes)} files`]
      : []),
  ].join(", ")

const TIDY =
  "delete files that are not needed (`du -xh --max-depth=2 / 2>/dev/null | sort -h | tail` and `du -h --max-depth=2 /workspace | sort -h | tail` show the largest directories; /tmp and caches of the home directory count, too)"
const LIMITS = "The operator sets the limits with SANDBOX_DISK_MIB and SANDBOX_FILES."

export const adviceOf = (use: DiskSize, limit: DiskSize): string =>
  `The disk of this sandbox is full: ${usedText(use, limit)}. Programs that were running have been ended. Before anything else ${TIDY}. If much more is written first, the agent is ended, too.`

export const diskNote = (news: DiskNews, use: DiskSize, limit: DiskSize): string => {
  const used = usedText(use, limit)
  switch (news) {
    case "near":
      return `The disk of this sandbox is nearly full: ${used}. When it is full, the programs that run in it are ended.`
    case "full":
      return `The disk of this sandbox is full: ${used}. The programs that ran in it were ended; no file was deleted. To go on, ${TIDY}, in a terminal or by asking the agent. ${LIMITS}`
    case "went-on":
      return `More was written although the disk of this sandbox is full: ${used}. The agent was ended and the sandbox sleeps; no file was deleted. The next prompt wakes it, and a terminal does, too: ${TIDY}. ${LIMITS}`
    case "freed":
      return `The disk of this sandbox has room again: ${used}.`
  }
}

export const diskReport = (
  state: Fullness,
  use: DiskSize,
  limit: DiskSize,
  ceiling: DiskSize | undefined,
): DiskReport => ({
  state,
  usedBytes: Math.round(use.bytes),
  ...(Number.isFinite(limit.bytes) && { limitBytes: limit.bytes }),
  usedFiles: use.inodes,
  ...(Number.isFinite(limit.inodes) && { limitFiles: limit.inodes }),
  ...(ceiling && Number.isFinite(ceiling.bytes) && { ceilingBytes: Math.round(ceiling.bytes) }),
  ...(ceiling && Number.isFinite(ceiling.inodes) && { ceilingFiles: Math.round(ceiling.inodes) }),
  ...(state === "full" && { advice: adviceOf(use, limit) }),
})

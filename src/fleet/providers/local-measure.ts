/** Measures what sandboxes of this machine have written: the space and the number of files of whole trees, as the disk counts them. */
import { runCommand } from "../../lib/run-command.ts"
import { type DiskSize, noSize } from "../core/disk-quota.ts"

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
/** A tree of millions of files on a slow disk. */
const MOST_MS = 10 * 60_000

/** Each inode once, however many names it has; other file systems below the trees are left out. */
const countTrees = 'du -s -x -c -B1 -- "$@" | tail -n 1; du -s -x -c --inodes -- "$@" | tail -n 1'

/**
 * Files without a name that a process of this PID namespace has open, on the file systems of these paths. They are in no tree and take
 * space until they are closed.
 */
const countNameless = [
  `on=" $(stat -c %d -- "$@" | tr '\\n' ' ') "`,
  "find -L /proc/[0-9]*/fd -maxdepth 1 -type f -links 0 -printf '%D %i %b\\n' 2>/dev/null | head -n 200000 |",
  `awk -v on="$on" 'index(on, " " $1 " ") && !seen[$1 " " $2]++ { blocks += $3; files++ } END { printf "%.0f\\n%.0f\\n", blocks * 512, files }'`,
].join("\n")

export interface MeasureOptions {
  /** The command that runs another one where, and as whom, the files can be read. */
  readonly within: readonly string[]
  readonly limit: AbortSignal
  /** Others wait for the result. */
  readonly isUrgent: boolean
}

const measure = async (
  script: string,
  paths: readonly string[],
  { within, limit, isUrgent }: MeasureOptions,
): Promise<DiskSize> => {
  const polite = isUrgent ? [] : ["nice", "-n", "10"]
  const [program = "", ...words] = [...polite, ...within, "/bin/sh", "-c", script, "sh", ...paths]
  const { stdout, stderr, aborted, timedOut } = await runCommand(program, words, {
    env: { PATH, LC_ALL: "C" },
    timeoutMs: MOST_MS,
    signal: limit,
  })
  const [bytes, inodes] = stdout.split("\n").map((line) => Number.parseInt(line, 10))
  // A file that was deleted meanwhile makes the exit code another one, and the numbers are there.
  if (aborted || timedOut || !Number.isFinite(bytes) || !Number.isFinite(inodes))
    throw new Error(
      `the files were not counted: ${stderr.trim().slice(0, 200) || "it took too long"}`,
    )
  return { bytes: bytes ?? 0, inodes: inodes ?? 0 }
}

export const measureTrees = (
  paths: readonly string[],
  options: MeasureOptions,
): Promise<DiskSize> =>
  paths.length === 0 ? Promise.resolve(noSize) : measure(countTrees, paths, options)

export const measureNameless = (
  paths: readonly string[],
  options: MeasureOptions,
): Promise<DiskSize> => measure(countNameless, paths, options)

export const sum = (...sizes: readonly DiskSize[]): DiskSize => ({
  bytes: sizes.reduce((all, { bytes }) => all + bytes, 0),
  inodes: sizes.reduce((all, { inodes }) => all + inodes, 0),
})

/** Never below zero. */
export const less = (size: DiskSize, ...others: readonly DiskSize[]): DiskSize => {
  const all = sum(...others)
  return {
    bytes: Math.max(0, size.bytes - all.bytes),
    inodes: Math.max(0, size.inodes - all.inodes),
  }
}

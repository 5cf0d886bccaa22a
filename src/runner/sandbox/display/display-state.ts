/** Decides which files of the display folder are new or changed, and which of them are not shown. Pure. */
import { displayLimits } from "../../../wire/frames/display.ts"

export interface FoundFile {
  /** Below the display folder. */
  readonly path: string
  readonly bytes: number
  /** Changes whenever the file may have changed. */
  readonly stamp: string
  readonly isRegular: boolean
}

export interface KnownFile {
  readonly stamp: string
  /** Absent for a file that was not shown. */
  readonly sha256?: string | undefined
}

export type Known = ReadonlyMap<string, KnownFile>

interface Omitted {
  readonly path: string
  readonly reason: string
}

export interface Plan {
  readonly read: readonly FoundFile[]
  readonly omitted: readonly Omitted[]
}

export const reasons = {
  special: "it is a link, a FIFO or a device",
  large: `it is larger than ${displayLimits.fileBytes} bytes`,
  tooMany: `one turn shows at most ${displayLimits.files} files and ${displayLimits.frameBytes} bytes`,
  type: "its content is not an image, a text, a PDF, an archive, audio or video",
  unreadable: "it could not be read",
} as const

/** Reads in the order of the paths, so that the limits do not depend on the order of the directory. */
export const planFiles = (found: readonly FoundFile[], known: Known): Plan => {
  const read: FoundFile[] = []
  const omitted: Omitted[] = []
  let bytes = 0
  for (const file of found.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    if (known.get(file.path)?.stamp === file.stamp) continue
    const reason = reasonToOmit(file, read.length, bytes)
    if (reason !== undefined) omitted.push({ path: file.path, reason })
    else {
      read.push(file)
      bytes += file.bytes
    }
  }
  return { read, omitted: omitted.slice(0, displayLimits.files) }
}

const reasonToOmit = (file: FoundFile, count: number, before: number): string | undefined => {
  if (!file.isRegular) return reasons.special
  if (file.bytes > displayLimits.fileBytes) return reasons.large
  const fits = count < displayLimits.files && before + file.bytes <= displayLimits.frameBytes
  return fits ? undefined : reasons.tooMany
}

export interface ReadFile {
  readonly path: string
  readonly stamp: string
  readonly sha256: string
  readonly mime: string | undefined
}

export interface Decision {
  /** New content of a type that is shown. */
  readonly shown: ReadonlySet<string>
  readonly omitted: readonly Omitted[]
  readonly known: Known
}

/** What the next turn compares with: every found file, shown or not, so that nothing is reported twice. */
export const decide = (
  found: readonly FoundFile[],
  files: readonly ReadFile[],
  known: Known,
): Decision => {
  const shown = new Set<string>()
  const omitted: Omitted[] = []
  const next = new Map<string, KnownFile>(
    found.map(({ path, stamp }) => {
      const former = known.get(path)
      return [path, former?.stamp === stamp ? former : { stamp }]
    }),
  )
  for (const { path, stamp, sha256, mime } of files) {
    next.set(path, { stamp, sha256 })
    if (known.get(path)?.sha256 === sha256) continue
    if (mime === undefined) omitted.push({ path, reason: reasons.type })
    else shown.add(path)
  }
  return { shown, omitted, known: next }
}

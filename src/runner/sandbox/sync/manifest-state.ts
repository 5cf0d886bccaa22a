/** The manifest of a saved workspace, and what a save or a restore has to transfer. Pure. */
import { z } from "zod"

const file = z.object({
  path: z.string().min(1),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  bytes: z.int().nonnegative(),
  mode: z.int().nonnegative(),
})

export const scanned = z.object({
  files: z.array(file),
  leftOut: z.array(z.object({ path: z.string(), reason: z.string() })),
})
export type Scanned = z.output<typeof scanned>

/** Files are named by their content in the storage, so that files of the former manifest stay until it is replaced. */
export const manifest = scanned.extend({ version: z.literal(1) })
export type Manifest = z.output<typeof manifest>
export type SavedFile = Manifest["files"][number]

export interface SavePlan {
  /** One file for each content that the storage does not have. */
  readonly put: readonly SavedFile[]
  /** Contents that no file has any more. */
  readonly remove: readonly string[]
  /** False if the manifest would be the same. */
  readonly isChanged: boolean
}

export const planSave = (former: Manifest | undefined, now: Scanned): SavePlan => {
  const stored = new Set(former?.files.map(({ sha256 }) => sha256))
  const wanted = new Map(now.files.map((one) => [one.sha256, one]))
  const put = [...wanted.values()].filter(({ sha256 }) => !stored.has(sha256))
  const remove = [...stored].filter((sha256) => !wanted.has(sha256))
  const isChanged = former === undefined || textOf(former) !== textOf(now)
  return { put, remove, isChanged }
}

/** The files that a new sandbox does not have. */
export const planRestore = (saved: Manifest, now: Scanned): readonly SavedFile[] => {
  const existing = new Set([...now.files, ...now.leftOut].map(({ path }) => path))
  return saved.files.filter(({ path }) => !existing.has(path))
}

export const manifestOf = ({ files, leftOut }: Scanned): Manifest => ({
  version: 1,
  files,
  leftOut,
})

const textOf = ({ files, leftOut }: Scanned): string =>
  JSON.stringify([
    files.map(({ path, sha256, bytes, mode }) => [path, sha256, bytes, mode]),
    leftOut.map(({ path, reason }) => [path, reason]),
  ])

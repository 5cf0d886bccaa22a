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

/** An object of the storage, from its listing. */
export interface StoredObject {
  readonly sha256: string
  /** When it was stored, by the clock of the storage. */
  readonly at: number
}

/** Signed URLs are valid for an hour: an older object does not belong to a save that is still in progress. */
const SWEEP_AGE_MS = 3_600_000

/** Contents that no manifest names, left by saves that were cut. `now` is the time of the storage. */
export const planSweep = (
  listed: readonly StoredObject[],
  saved: Scanned | undefined,
  now: number,
  ageMs = SWEEP_AGE_MS,
): readonly string[] => {
  const wanted = new Set(saved?.files.map(({ sha256 }) => sha256))
  return listed
    .filter(({ sha256, at }) => !wanted.has(sha256) && at <= now - ageMs)
    .map(({ sha256 }) => sha256)
}

const [ENTRY, ENTRY_END] = ["<Contents>", "</Contents>"]
const NAME = /<Key>[^<]*files\/([0-9a-f]{64})<\/Key>/
const TIME = /<LastModified>([^<]{1,40})<\/LastModified>/

/** One page of a listing (ListObjectsV2). Objects with other names are not ours and are left out. */
export const readListing = (
  xml: string,
): { readonly objects: readonly StoredObject[]; readonly isLast: boolean } => ({
  objects: xml
    .split(ENTRY)
    .slice(1)
    .flatMap((text) => {
      const entry = text.slice(0, Math.max(0, text.indexOf(ENTRY_END)))
      const sha256 = NAME.exec(entry)?.[1]
      const at = Date.parse(TIME.exec(entry)?.[1] ?? "")
      return sha256 === undefined || Number.isNaN(at) ? [] : [{ sha256, at }]
    }),
  isLast: !/<IsTruncated>true<\/IsTruncated>/i.test(xml),
})

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

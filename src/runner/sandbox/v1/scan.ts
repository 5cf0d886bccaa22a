/**
 * Lists every file of the workspace with its SHA-256, for the copy in object storage. What git ignores, large files and
 * everything that is not a regular file is left out and named. Hashes of unchanged files are remembered.
 */
import { createHash } from "node:crypto"
import { lstat, opendir } from "node:fs/promises"
import type { HeldDirectory } from "../../../lib/untrusted-files.ts"
import { DRAFT_PREFIX, type Files } from "./files.ts"
import { inRepository } from "./git-repository.ts"

export interface ScannedFile {
  /** Below the workspace. */
  readonly path: string
  readonly sha256: string
  readonly bytes: number
  readonly mode: number
}

export interface LeftOut {
  readonly path: string
  readonly reason: "ignored" | "too large" | "not a regular file" | "unreadable" | "too many files"
}

export interface Scan {
  readonly files: readonly ScannedFile[]
  readonly leftOut: readonly LeftOut[]
}

interface Walk {
  readonly files: ScannedFile[]
  readonly leftOut: LeftOut[]
  readonly ignored: Set<string>
  readonly seen: Set<string>
}

const MOST_BYTES = 100 * 1024 * 1024
const MOST_FILES = 50_000
const MOST_LEFT_OUT = 1000
const DEEPEST = 60
const READ_BYTES = 256 * 1024

export const createScanner = (
  files: Files,
  environment: Readonly<Record<string, string>>,
): (() => Promise<Scan>) => {
  const known = new Map<string, { readonly stamp: string; readonly sha256: string }>()

  const hashOf = async (path: string, stamp: string): Promise<string | undefined> => {
    const former = known.get(path)
    if (former?.stamp === stamp) return former.sha256
    const sha256 = await digest(files, path).catch(() => undefined)
    if (sha256 !== undefined) known.set(path, { stamp, sha256 })
    return sha256
  }

  const addFile = async (walk: Walk, directory: HeldDirectory, path: string, name: string) => {
    const stats = await lstat(directory.entry(name), { bigint: true }).catch(() => undefined)
    if (stats === undefined) return
    const { ino, size, mtimeNs, ctimeNs, mode } = stats
    if (!stats.isFile()) return leaveOut(walk, path, "not a regular file")
    if (size > MOST_BYTES) return leaveOut(walk, path, "too large")
    if (walk.files.length >= MOST_FILES) return leaveOut(walk, path, "too many files")
    walk.seen.add(path)
    const sha256 = await hashOf(path, [ino, size, mtimeNs, ctimeNs].join(":"))
    if (sha256 === undefined) return leaveOut(walk, path, "unreadable")
    walk.files.push({ path, sha256, bytes: Number(size), mode: Number(mode) & 0o777 })
  }

  const walkDirectory = async (walk: Walk, above: readonly string[]): Promise<void> => {
    const at = above.join("/")
    const directory = await files.hold(at === "" ? "." : at).catch(() => undefined)
    if (directory === undefined) return leaveOut(walk, at, "unreadable")
    try {
      const entries = []
      for await (const entry of await opendir(directory.self)) entries.push(entry)
      const isRepository = entries.some((entry) => entry.name === ".git" && entry.isDirectory())
      if (isRepository) await addIgnored(walk, files, at, environment)
      for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
        const path = [...above, entry.name].join("/")
        if (isTemporary(above, entry.name)) continue
        if (walk.ignored.has(path)) leaveOut(walk, path, "ignored")
        else if (!entry.isDirectory()) await addFile(walk, directory, path, entry.name)
        else if (above.length < DEEPEST) await walkDirectory(walk, [...above, entry.name])
      }
    } finally {
      await directory.close()
    }
  }

  return async () => {
    const walk: Walk = { files: [], leftOut: [], ignored: new Set(), seen: new Set() }
    await walkDirectory(walk, [])
    for (const path of known.keys()) if (!walk.seen.has(path)) known.delete(path)
    return { files: walk.files, leftOut: walk.leftOut }
  }
}

const leaveOut = (walk: Walk, path: string, reason: LeftOut["reason"]): void => {
  if (walk.leftOut.length < MOST_LEFT_OUT) walk.leftOut.push({ path, reason })
}

/** A lock of git belongs to a running program; restored, it would block every command. */
const isTemporary = (above: readonly string[], name: string): boolean =>
  name.startsWith(DRAFT_PREFIX) || (above.includes(".git") && name.endsWith(".lock"))

/** A repository that git cannot read has no ignored files. */
const addIgnored = async (
  { ignored }: Walk,
  files: Files,
  at: string,
  environment: Readonly<Record<string, string>>,
): Promise<void> => {
  const args = ["ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"]
  const listed = await inRepository(files, at === "" ? "." : at, environment, (git) =>
    git(args),
  ).catch(() => "")
  for (const entry of listed.split("\0")) {
    const path = entry.replace(/\/$/, "")
    if (path !== "") ignored.add(at === "" ? path : `${at}/${path}`)
  }
}

const digest = async (files: Files, path: string): Promise<string> => {
  const { file, size } = await files.openForReading(path)
  try {
    const hash = createHash("sha256")
    const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(READ_BYTES, size)))
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null)
      if (bytesRead === 0) return hash.digest("hex")
      hash.update(buffer.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}

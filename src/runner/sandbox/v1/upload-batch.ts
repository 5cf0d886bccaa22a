/**
 * Unpacks a tar archive into a directory of the workspace. The files are complete beside their places before the first one
 * gets its name, so a refused or interrupted archive changes nothing.
 */
import { rename } from "node:fs/promises"
import { type HeldDirectory, holdBelow } from "../../../lib/untrusted-files.ts"
import type { Files } from "./files.ts"
import { namesBelow } from "./paths.ts"
import { invalid, Problem, problemOf } from "./problem.ts"
import { mayEnd, newTar, stepTar, TarError, type TarEvent } from "./tar-state.ts"

export interface UploadResult {
  readonly paths: readonly string[]
  /** More entries were unpacked than `paths` names. */
  readonly truncated: boolean
}

const MOST_ENTRIES = 10_000
const MOST_PATHS = 1024

export interface UploadOptions {
  readonly root: string
  readonly files: Files
  readonly maxBytes: number
}

interface Placed {
  readonly names: readonly string[]
  /** The file's name in the staging directory; undefined for a directory. */
  readonly draft: string | undefined
}

export const unpackBatch = async (
  target: string,
  body: AsyncIterable<Buffer>,
  { root, files, maxBytes }: UploadOptions,
): Promise<UploadResult> => {
  const targetNames = namesBelow(root, target)
  const staging = `.sandpiper-draft-${crypto.randomUUID()}`
  const placed: Placed[] = []
  const writer = createEntryWriter(files, staging)
  let total = 0

  const take = async (event: TarEvent): Promise<void> => {
    if (event.type === "data") return writer.write(event.bytes)
    if (event.type === "entry-end") return writer.end()
    if (event.kind === "other") {
      throw invalid(`${event.path} in the archive is neither a file nor a directory`)
    }
    const names = [...targetNames, ...namesInside(event.path)]
    total += event.size
    if (total > maxBytes) throw tooLarge(maxBytes)
    if (names.length === targetNames.length) {
      if (event.kind === "file") throw invalid("a file in the archive has no name")
      return
    }
    if (placed.length >= MOST_ENTRIES) {
      throw new Problem(
        413,
        "invalid_request",
        `the archive has more than ${MOST_ENTRIES} entries: send it in parts`,
      )
    }
    const draft = event.kind === "file" ? String(placed.length) : undefined
    placed.push({ names, draft })
    if (draft !== undefined) await writer.begin(draft, event.mode)
  }

  try {
    await files.makeDirectory(staging)
    let state = newTar()
    for await (const bytes of body) {
      const [next, events] = readTar(state, bytes)
      state = next
      for (const event of events) await take(event)
    }
    if (!mayEnd(state)) throw invalid("the archive is not complete")
    await place(root, staging, placed)
  } finally {
    await writer.discard()
    await files.remove(staging, true).catch(() => {})
  }
  const paths = placed.slice(0, MOST_PATHS).map(({ names }) => files.absolute(names.join("/")))
  return { paths, truncated: placed.length > MOST_PATHS }
}

const readTar: typeof stepTar = (state, bytes) => {
  try {
    return stepTar(state, bytes)
  } catch (error) {
    if (error instanceof TarError) throw invalid(`the archive cannot be read: ${error.message}`)
    throw error
  }
}

/** An archive names its entries relative to the target. */
const namesInside = (path: string): readonly string[] => {
  if (path.startsWith("/")) throw invalid(`the path ${path} in the archive is absolute`)
  return namesBelow("/", path)
}

const createEntryWriter = (files: Files, staging: string) => {
  let draft: Awaited<ReturnType<Files["draft"]>> | undefined
  return {
    begin: async (name: string, mode: number) => {
      // Readable and writable for its owner in any case: a file without rights could not be replaced later.
      draft = await files.draft(`${staging}/${name}`, (mode & 0o777) | 0o600)
    },
    write: async (bytes: Buffer) => draft?.write(bytes),
    end: async () => {
      await draft?.commit()
      draft = undefined
    },
    discard: async () => draft?.discard(),
  }
}

const place = async (root: string, staging: string, placed: readonly Placed[]): Promise<void> => {
  const from = await holdBelow(root, [staging])
  try {
    for (const { names, draft } of placed) {
      await placeOne(root, names, draft, from).catch((error: unknown) => {
        throw problemOf(error, names.join("/"))
      })
    }
  } finally {
    await from.close()
  }
}

const placeOne = async (
  root: string,
  names: readonly string[],
  draft: string | undefined,
  from: HeldDirectory,
): Promise<void> => {
  const to = await holdBelow(root, draft === undefined ? names : names.slice(0, -1))
  try {
    if (draft !== undefined) await rename(from.entry(draft), to.entry(names.at(-1) ?? ""))
  } finally {
    await to.close()
  }
}

const tooLarge = (maxBytes: number): Problem =>
  new Problem(
    413,
    "invalid_request",
    `the files of the archive have more than ${maxBytes} bytes: send it in parts`,
  )

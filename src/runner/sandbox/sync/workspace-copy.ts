/**
 * Saves the workspace to object storage and restores it. Files come first and the manifest last: until it is replaced, the
 * former state is complete. Then files that the new manifest does not name are deleted. Of a save that was cut, the next
 * save of this process deletes what was sent; a sweep of the storage deletes what an earlier process has sent.
 */
import { createHash } from "node:crypto"
import { describeError, type Log } from "../../../lib/log.ts"
import { readLimited, readLimitedText } from "../../../lib/read-limited.ts"
import type { RequestFields, RequestResult } from "../../../wire/frames/index.ts"
import { parseLimitedJson } from "../../../wire/json-limits.ts"
import { MOST_WORKSPACE_URLS, type SavedWorkspace } from "../../../wire/operations/workspace.ts"
import {
  type Manifest,
  manifest,
  manifestOf,
  planRestore,
  planSave,
  planSweep,
  readListing,
  type SavedFile,
} from "./manifest-state.ts"
import { type ObjectCalls, StorageError } from "./object-calls.ts"
import type { SandboxFiles } from "./sandbox-files.ts"

export interface WorkspaceCopyOptions {
  readonly urls: (
    fields: RequestFields<"workspace-urls">,
  ) => Promise<RequestResult<"workspace-urls">>
  readonly objects: ObjectCalls
  readonly files: SandboxFiles
  readonly now: () => number
  readonly log: Log
  /** How old an object must be to be swept; an hour if absent. */
  readonly sweepAgeMs?: number
}

export interface WorkspaceCopy {
  readonly save: () => Promise<SavedWorkspace>
  /** Reads the workspace and compares it with what was saved last; also true if that is not known. */
  readonly hasChanged: () => Promise<boolean>
  /** Resolves to the number of files that were written. */
  readonly restore: () => Promise<number>
}

const CONCURRENT = 8
/** How often a runner that saves looks for objects of saves that were cut, beginning with its first save. */
const SWEEP_EVERY_MS = 3_600_000
/** Pages of a listing in one sweep; a page has 1,000 objects. */
const MOST_PAGES = 100
/** Larger files are sent in pieces, and their content is checked while it is sent. */
const MOST_IN_MEMORY = 4 * 1024 * 1024
/** Of the most files that a scan names, with long paths. */
const MOST_MANIFEST = 64 * 1024 * 1024
/** Of a thousand objects, several times over. */
const MOST_LISTING = 8 * 1024 * 1024

export const createWorkspaceCopy = (options: WorkspaceCopyOptions): WorkspaceCopy => {
  const { urls, objects, files, now: clockNow, log } = options
  /** The manifest in the storage; undefined until it was read or written. */
  let stored: Manifest | undefined
  /** Contents that were sent, or begun to be sent, since the manifest was last written. */
  const sent = new Set<string>()
  let sweptAt = Number.NEGATIVE_INFINITY

  const manifestUrl = async (action: "get" | "put"): Promise<string> => {
    const { manifest: url } = await urls({ manifest: action })
    if (url === undefined) throw new Error("the session agent signed no URL for the manifest")
    return url
  }
  const readManifest = async (): Promise<Manifest | undefined> => {
    try {
      const response = await objects.get(await manifestUrl("get"))
      const text = await readLimitedText(response, MOST_MANIFEST)
      if (text === undefined) throw new Error("the manifest in the object storage is too long")
      return manifest.parse(parseLimitedJson(text))
    } catch (error) {
      if (error instanceof StorageError && error.status === 404) return undefined
      throw error
    }
  }

  const upload = async (file: SavedFile, url: string): Promise<void> => {
    if (file.bytes <= MOST_IN_MEMORY) {
      const bytes = await readLimited(await files.read(file.path), MOST_IN_MEMORY)
      if (!bytes || sha256Of(bytes) !== file.sha256) throw changed(file.path)
      return objects.put(url, bytes.length, async () => bytes)
    }
    let hash = createHash("sha256")
    await objects.put(url, file.bytes, async () => {
      hash = createHash("sha256")
      const { body } = await files.read(file.path)
      if (!body) throw changed(file.path)
      return body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform: (piece, controller) => {
            hash.update(piece)
            controller.enqueue(piece)
          },
        }),
      )
    })
    if (hash.digest("hex") !== file.sha256) throw changed(file.path)
  }

  const save = async (): Promise<SavedWorkspace> => {
    stored ??= await readManifest()
    const now = await files.scan()
    const plan = planSave(stored, now)
    const { put, isChanged } = plan
    for (const batch of batches(put)) {
      for (const { sha256 } of batch) sent.add(sha256)
      const signed = await urls({ put: batch.map(({ sha256 }) => sha256) })
      await concurrently(batch, (file, index) => upload(file, mustHave(signed.put[index])))
    }
    if (isChanged) {
      const next = manifestOf(now)
      const bytes = new TextEncoder().encode(JSON.stringify(next))
      await objects.put(await manifestUrl("put"), bytes.length, async () => bytes)
      stored = next
    }
    const wanted = new Set(now.files.map(({ sha256 }) => sha256))
    const remove = [...plan.remove, ...[...sent].filter((sha256) => !wanted.has(sha256))]
    await removeAll(remove)
    sent.clear()
    await sweepSometimes()
    return {
      files: now.files.length,
      uploaded: put.length,
      bytes: put.reduce((sum, { bytes }) => sum + bytes, 0),
      removed: remove.length,
      leftOut: now.leftOut.length,
    }
  }

  const removeAll = async (hashes: readonly string[]): Promise<void> => {
    for (const batch of batches(hashes)) {
      const signed = await urls({ remove: [...batch] })
      await concurrently(batch, (_sha256, index) => objects.remove(mustHave(signed.remove[index])))
    }
  }

  const sweep = async (): Promise<void> => {
    let after = ""
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const { list } = await urls({ list: after })
      // A session agent that cannot list.
      if (list === undefined) return
      const response = await objects.get(list)
      const xml = await readLimitedText(response, MOST_LISTING)
      if (xml === undefined) throw new Error("a page of the object storage's listing is too long")
      const { objects: listed, isLast } = readListing(xml)
      const at = Date.parse(response.headers.get("date") ?? "")
      const garbage = planSweep(listed, stored, at, options.sweepAgeMs)
      await removeAll(garbage)
      if (garbage.length > 0) log.info("workspace.swept", { objects: garbage.length })
      after = listed.at(-1)?.sha256 ?? ""
      if (isLast || after === "") return
    }
  }
  /** The save is complete before: a failed sweep is repeated with a later save. */
  const sweepSometimes = async (): Promise<void> => {
    if (clockNow() < sweptAt + SWEEP_EVERY_MS) return
    try {
      await sweep()
      sweptAt = clockNow()
    } catch (error) {
      log.warn("workspace.not-swept", { error: describeError(error) })
    }
  }

  const restore = async (): Promise<number> => {
    const saved = await readManifest()
    if (!saved) return 0
    const missing = planRestore(saved, await files.scan())
    for (const batch of batches(missing)) {
      const signed = await urls({ get: batch.map(({ sha256 }) => sha256) })
      await concurrently(batch, async (file, index) => {
        const response = await objects.get(mustHave(signed.get[index]))
        await files.write(file, response.body ?? "")
      })
    }
    stored = saved
    return missing.length
  }

  return {
    save,
    hasChanged: async () => stored === undefined || planSave(stored, await files.scan()).isChanged,
    restore,
  }
}

const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

const changed = (path: string): Error =>
  new Error(`${path} changed while it was saved: the next save takes it`)

const mustHave = (url: string | undefined): string => {
  if (url === undefined) throw new Error("the session agent signed too few URLs")
  return url
}

const batches = <Item>(items: readonly Item[]): readonly (readonly Item[])[] =>
  Array.from({ length: Math.ceil(items.length / MOST_WORKSPACE_URLS) }, (_, index) =>
    items.slice(index * MOST_WORKSPACE_URLS, (index + 1) * MOST_WORKSPACE_URLS),
  )

/** Stops after the first failure, when the calls in progress have ended. */
const concurrently = async <Item>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> => {
  const entries = items.entries()
  let failure: { readonly error: unknown } | undefined
  const lane = async () => {
    for (const [index, item] of entries) {
      if (failure) return
      await work(item, index).catch((error: unknown) => {
        failure ??= { error }
      })
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, lane))
  if (failure) throw failure.error
}

/** Files of drafts and requests that wait for a reply, in the browser's database: a reload keeps them. */
import type { Pending } from "../../view/view.ts"

export interface DraftFile {
  readonly id: string
  readonly name: string
  readonly mime: string
  readonly size: number
  readonly blob: Blob
  /** Of a recording: how long it is. */
  readonly lengthMs?: number
}

export const MAX_FILES = 20
export const MAX_BYTES = 20_000_000

const open = (): Promise<IDBDatabase> =>
  new Promise((resolve, reject) => {
    const opening = indexedDB.open("sandpiper", 1)
    opening.addEventListener("upgradeneeded", () => opening.result.createObjectStore("files"))
    opening.addEventListener("success", () => resolve(opening.result))
    opening.addEventListener("error", () => reject(opening.error ?? new Error("no database")))
  })

const run = async <Value>(
  mode: IDBTransactionMode,
  act: (store: IDBObjectStore) => IDBRequest<Value>,
): Promise<Value | undefined> => {
  try {
    const database = await open()
    return await new Promise((resolve, reject) => {
      const asked = act(database.transaction("files", mode).objectStore("files"))
      asked.addEventListener("success", () => resolve(asked.result))
      asked.addEventListener("error", () => reject(asked.error ?? new Error("refused")))
    })
  } catch {
    // A private window may have no database: the files last as long as the page.
    return undefined
  }
}

export const readFiles = async (conversation: string): Promise<readonly DraftFile[]> =>
  ((await run("readonly", (store) => store.get(conversation))) as readonly DraftFile[]) ?? []

export const writeFiles = async (
  conversation: string,
  files: readonly DraftFile[],
): Promise<void> => {
  if (files.length === 0) await run("readwrite", (store) => store.delete(conversation))
  else await run("readwrite", (store) => store.put(files, conversation))
}

const OUTBOX = "outbox:"
const outboxName = (session: string, id: string): string => `${OUTBOX}${session}/${id}`

/** Requests of the session that have no reply yet, or that were refused. */
export const readOutbox = async (session: string): Promise<readonly Pending[]> => {
  const first = outboxName(session, "")
  const range = IDBKeyRange.bound(first, `${first}\uFFFF`)
  const found = await run("readonly", (store) => store.getAll(range))
  return (found as readonly Pending[] | undefined) ?? []
}

export const writePending = async (session: string, pending: Pending): Promise<void> => {
  const name = outboxName(session, pending.clientRequestId)
  await run("readwrite", (store) => store.put(pending, name))
}

export const deletePending = async (session: string, clientRequestId: string): Promise<void> => {
  await run("readwrite", (store) => store.delete(outboxName(session, clientRequestId)))
}

export const draftFile = (file: Blob, name: string): DraftFile => ({
  id: crypto.randomUUID(),
  name,
  mime: file.type === "" ? "application/octet-stream" : file.type,
  size: file.size,
  blob: file,
})

/** As a prompt carries it: a `data:` URL. */
export const attachmentOf = async (
  file: DraftFile,
): Promise<{
  readonly type: "file"
  readonly mime: string
  readonly url: string
  readonly filename: string
}> => ({
  type: "file",
  mime: file.mime,
  filename: file.name,
  url: await new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener("load", () => resolve(reader.result as string))
    reader.addEventListener("error", () => reject(reader.error ?? new Error("cannot be read")))
    reader.readAsDataURL(file.blob)
  }),
})

/**
 * Files of prompts. Their bytes are stored as blobs until the prompt ends, because the prompt may have to be sent to the
 * runner again. The conversation shows only names and types, and the images, which stay as artifacts.
 */
import type { Inbound } from "../../wire/frames/index.ts"
import type { Ports } from "./ports.ts"
import { fileRow, idRow, readRows } from "./rows.ts"

type Prompt = Inbound<"prompt">
type Attachment = NonNullable<Prompt["attachments"]>[number]

export interface Attachments {
  /** Stores the files and returns the prompt with references in their place. Inside a transaction. */
  readonly store: (prompt: Prompt) => Prompt
  /** The same references without storing anything: to compare a prompt with a stored one, whose files may be deleted. */
  readonly toReferences: (prompt: Prompt) => Prompt
  /** The stored prompt with its files. */
  readonly load: (prompt: Prompt) => Prompt
  /** The prompt has ended and is never sent again. Inside a transaction. */
  readonly release: (promptId: string) => void
  /** After the commit: deletes the released blobs. A crash before it leaves an orphan blob, never a row without a blob. */
  readonly deleteReleased: () => void
  /** After a rollback: deletes the blobs that the transaction stored and keeps those that it released. */
  readonly rollBack: () => void
  /** Deletes blobs without a row, which a crash has left. */
  readonly deleteOrphans: () => void
}

const BASE64 = /^(data:[^,]*;base64,)([A-Za-z0-9+/=]*)$/i
const REFERENCE = /^kept:[^;]*;(.*)$/

export const createAttachments = ({
  sql,
  blobs,
  newId,
  digest,
  report,
}: Pick<Ports, "sql" | "blobs" | "newId" | "digest" | "report">): Attachments => {
  let stored: string[] = []
  let released: string[] = []

  const deleteBlobs = (ids: readonly string[]) => {
    for (const id of ids) {
      try {
        blobs.remove(id)
      } catch (error) {
        // The row is deleted already: the next start deletes the blob as an orphan.
        report("hub.blob-not-deleted", { error: String(error) })
      }
    }
  }
  const reset = () => {
    stored = []
    released = []
  }

  const replaceFiles = (
    prompt: Prompt,
    onFile: (mime: string, base64: string, place: number) => void,
  ) =>
    mapAttachments(prompt, (attachment, place) => {
      const [, head, base64] = BASE64.exec(attachment.url) ?? []
      if (head === undefined || base64 === undefined) return attachment
      onFile(attachment.mime, base64, place)
      return { ...attachment, url: `kept:${digest(base64)};${head}` }
    })

  return {
    store: (prompt) =>
      replaceFiles(prompt, (mime, base64, place) => {
        const id = newId()
        stored.push(id)
        blobs.put(id, mime, base64)
        sql.run(
          "INSERT INTO files (prompt, place, id) VALUES (?, ?, ?)",
          prompt.messageId,
          place,
          id,
        )
      }),
    toReferences: (prompt) => replaceFiles(prompt, () => {}),
    load: (prompt) => {
      if (!prompt.attachments) return prompt
      const rows = readRows(
        sql,
        fileRow,
        "SELECT place, id FROM files WHERE prompt = ?",
        prompt.messageId,
      )
      const ids = new Map(rows.map(({ place, id }) => [place, id]))
      return mapAttachments(prompt, (attachment, place) => {
        const id = ids.get(place)
        const head = REFERENCE.exec(attachment.url)?.[1]
        if (id === undefined || head === undefined) return attachment
        return { ...attachment, url: `${head}${blobs.get(id) ?? ""}` }
      })
    },
    release: (promptId) => {
      // An image that is shown in the conversation is an artifact and stays.
      const rows = readRows(
        sql,
        idRow,
        "SELECT id FROM files WHERE prompt = ? AND id NOT IN (SELECT id FROM artifacts)",
        promptId,
      )
      sql.run("DELETE FROM files WHERE prompt = ?", promptId)
      released.push(...rows.map(({ id }) => id))
    },
    deleteReleased: () => {
      const ids = released
      reset()
      deleteBlobs(ids)
    },
    rollBack: () => {
      const ids = stored
      reset()
      deleteBlobs(ids)
    },
    deleteOrphans: () => {
      const rows = readRows(
        sql,
        idRow,
        `SELECT id FROM files UNION SELECT id FROM artifacts
         EXCEPT SELECT id FROM display_files WHERE moved = 1`,
      )
      const referenced = new Set(rows.map(({ id }) => id))
      deleteBlobs(blobs.ids().filter((id) => !referenced.has(id)))
    },
  }
}

const mapAttachments = (
  prompt: Prompt,
  change: (attachment: Attachment, place: number) => Attachment,
): Prompt =>
  prompt.attachments ? { ...prompt, attachments: prompt.attachments.map(change) } : prompt

/**
 * Files that come with a prompt: their bytes go to the host's blobs, and the runner gets them whole, as often as the prompt
 * is sent. The conversation names files without their bytes and no client reads them, so they go with the prompt's end.
 */
import type { Inbound } from "../../wire/frames/index.ts"
import type { Ports } from "./ports.ts"

type Prompt = Inbound<"prompt">
type Attachment = NonNullable<Prompt["attachments"]>[number]

export interface Attachments {
  /** The prompt as its row keeps it; its files are put away. Part of a transaction. */
  readonly stow: (prompt: Prompt) => Prompt
  /** The prompt as its row would keep it: to be compared with one that is kept, also when the files of that are gone. */
  readonly outline: (prompt: Prompt) => Prompt
  /** The prompt of a row, whole. */
  readonly unstow: (prompt: Prompt) => Prompt
  /** The prompt is over and never sent again. Part of a transaction. */
  readonly release: (promptId: string) => void
  /** The transaction is through: what it has released goes. Rows first: a death in between leaves a blob, never a lack. */
  readonly remove: () => void
  /** The transaction did not go through: what it has put away goes, what it has released stays. */
  readonly forget: () => void
  /** Takes away what an earlier life has left: blobs that no row speaks of. */
  readonly sweep: () => void
}

const BASE64 = /^(data:[^,]*;base64,)([A-Za-z0-9+/=]*)$/i
const KEPT = /^kept:[^;]*;(.*)$/

export const createAttachments = ({
  sql,
  blobs,
  newId,
  digest,
  report,
}: Pick<Ports, "sql" | "blobs" | "newId" | "digest" | "report">): Attachments => {
  let put: string[] = []
  let released: string[] = []

  const removeAll = (ids: readonly string[]) => {
    for (const id of ids) {
      try {
        blobs.remove(id)
      } catch (error) {
        // The row is gone already, so the next life finds it as one that nobody speaks of.
        report("hub.blob-left", { error: String(error) })
      }
    }
  }
  const done = () => {
    put = []
    released = []
  }

  const outlined = (prompt: Prompt, file: (mime: string, base64: string, place: number) => void) =>
    onAttachments(prompt, (attachment, place) => {
      const [, head, base64] = BASE64.exec(attachment.url) ?? []
      if (head === undefined || base64 === undefined) return attachment
      file(attachment.mime, base64, place)
      return { ...attachment, url: `kept:${digest(base64)};${head}` }
    })

  return {
    stow: (prompt) =>
      outlined(prompt, (mime, base64, place) => {
        const id = newId()
        put.push(id)
        blobs.put(id, mime, base64)
        sql.run(
          "INSERT INTO files (prompt, place, id) VALUES (?, ?, ?)",
          prompt.messageId,
          place,
          id,
        )
      }),
    outline: (prompt) => outlined(prompt, () => {}),
    unstow: (prompt) => {
      if (!prompt.attachments) return prompt
      const rows = sql.all<{ place: number; id: string }>(
        "SELECT place, id FROM files WHERE prompt = ?",
        prompt.messageId,
      )
      const ids = new Map(rows.map(({ place, id }) => [place, id]))
      return onAttachments(prompt, (attachment, place) => {
        const id = ids.get(place)
        const head = KEPT.exec(attachment.url)?.[1]
        if (id === undefined || head === undefined) return attachment
        return { ...attachment, url: `${head}${blobs.get(id) ?? ""}` }
      })
    },
    release: (promptId) => {
      const rows = sql.all<{ id: string }>(
        "DELETE FROM files WHERE prompt = ? RETURNING id",
        promptId,
      )
      released.push(...rows.map(({ id }) => id))
    },
    remove: () => {
      const over = released
      done()
      removeAll(over)
    },
    forget: () => {
      const failed = put
      done()
      removeAll(failed)
    },
    sweep: () => {
      const spoken = sql.all<{ id: string }>("SELECT id FROM files UNION SELECT id FROM artifacts")
      const kept = new Set(spoken.map(({ id }) => id))
      removeAll(blobs.ids().filter((id) => !kept.has(id)))
    },
  }
}

const onAttachments = (
  prompt: Prompt,
  change: (attachment: Attachment, place: number) => Attachment,
): Prompt =>
  prompt.attachments ? { ...prompt, attachments: prompt.attachments.map(change) } : prompt

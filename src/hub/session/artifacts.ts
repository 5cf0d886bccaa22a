/** Images and files of the conversation: the bytes go to the host's blobs, the row describes them. */
import type { Artifact } from "../../wire/clients/conversation.ts"
import { imageSize } from "./image-size.ts"
import type { Prompt } from "./queue.ts"
import { artifactRow, fileRow, idRow, readRow, readRows } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

const BASE64_PER_BYTE = 4 / 3

export interface NewArtifact {
  readonly id: string
  readonly mime: string
  readonly base64: string
  readonly description: string
  /** The message that it belongs to, and the tool call that made it. */
  readonly messageId?: string | undefined
  readonly callId?: string | undefined
}

/** Idempotent: the same id is the same artifact. */
export const storeArtifact = (context: SessionContext, artifact: NewArtifact): string => {
  context.ports.blobs.put(artifact.id, artifact.mime, artifact.base64)
  return addArtifact(context, artifact)
}

/** The bytes are stored already. */
const addArtifact = (
  { ports, changes }: Pick<SessionContext, "ports" | "changes">,
  { id, mime, base64, description, messageId, callId }: NewArtifact,
): string => {
  const bytes = Math.floor(base64.replace(/=+$/, "").length / BASE64_PER_BYTE)
  const size = imageSize(base64)
  ports.sql.run(
    `INSERT OR IGNORE INTO artifacts (id, mime, bytes, description, at, message_id, call_id, width, height)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    mime,
    bytes,
    description,
    ports.now(),
    messageId ?? null,
    callId ?? null,
    size?.width ?? null,
    size?.height ?? null,
  )
  changes.record("artifact", id)
  return id
}

/** The newest reply to a prompt: what the agent shows while it works on the prompt belongs to it. */
export const replyTo = (
  { ports }: SessionContext,
  promptId: string | undefined,
): string | undefined =>
  promptId === undefined
    ? undefined
    : readRow(
        ports.sql,
        idRow,
        "SELECT id FROM messages WHERE prompt_id = ? AND role = 'assistant' ORDER BY place DESC LIMIT 1",
        promptId,
      )?.id

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/i
const BASE64 = /^data:[^,]*;base64,([A-Za-z0-9+/=]*)$/i

/** The images of a prompt that enters the conversation become artifacts and stay when its other files are deleted. */
export const keepPromptImages = (
  context: SessionContext,
  { messageId, attachments = [] }: Prompt,
): ReadonlyMap<number, string> => {
  const rows = readRows(
    context.ports.sql,
    fileRow,
    "SELECT place, id FROM files WHERE prompt = ?",
    messageId,
  )
  return new Map(
    rows.flatMap(({ place, id }) => {
      const { mime = "", url = "", filename = "" } = attachments[place] ?? {}
      const base64 = BASE64.exec(url)?.[1]
      if (!IMAGE.test(mime) || base64 === undefined) return []
      addArtifact(context, { id, mime, base64, description: filename, messageId })
      return [[place, id] as const]
    }),
  )
}

export const artifactOf = (row: ReturnType<typeof artifactRow.parse>): Artifact => {
  const { message_id, call_id, width, height, ...rest } = row
  return {
    ...rest,
    ...(message_id !== null && { messageId: message_id }),
    ...(call_id !== null && { callId: call_id }),
    ...(width !== null && height !== null && { width, height }),
  }
}

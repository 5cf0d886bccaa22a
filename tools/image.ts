/** Images for the conversation: read from a file or URL, type detected from the first bytes, shown to the user. */
import { readFile, stat } from "node:fs/promises"
import { resolve } from "node:path"
import { callOperation, operationNamed } from "./gateway.ts"
import type { Attachment, ToolContext } from "./tool.ts"

export interface Image {
  readonly bytes: Uint8Array
  readonly mime: string
}

/** The runner accepts 8 MiB per call, and base64 adds a third. */
const MAX_BYTES = 5 * 1024 * 1024

export const readImage = async (source: string, context: ToolContext): Promise<Image> => {
  const bytes = /^(https?|data):/i.test(source)
    ? await fetchBytes(source, context.abort)
    : await readBytes(resolve(context.directory, source))
  if (bytes.length > MAX_BYTES) throw new Error("The image is larger than 5 MiB; make it smaller.")
  const mime = mimeOf(bytes)
  if (mime === undefined) throw new Error("The file is not a PNG, JPEG, GIF or WebP image.")
  return { bytes, mime }
}

export const showImage = async (
  image: Image,
  description: string,
  context: ToolContext,
): Promise<void> => {
  const input = { data: base64(image), description, mimeType: image.mime }
  await callOperation({ operation: operationNamed("send-image"), input, context })
}

/** An attachment of the tool result: the model sees the image. */
export const toAttachment = (image: Image, filename: string): Attachment => ({
  type: "file",
  mime: image.mime,
  url: `data:${image.mime};base64,${base64(image)}`,
  filename,
})

export const base64 = ({ bytes }: Image): string => Buffer.from(bytes).toString("base64")

/** By the first bytes, because a file name may be wrong. */
export const mimeOf = (bytes: Uint8Array): string | undefined => {
  const head = Buffer.from(bytes.subarray(0, 12)).toString("latin1")
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png"
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg"
  if (head.startsWith("GIF87a") || head.startsWith("GIF89a")) return "image/gif"
  if (head.startsWith("RIFF") && head.slice(8) === "WEBP") return "image/webp"
  return undefined
}

const readBytes = async (path: string): Promise<Uint8Array> => {
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) throw new Error(`There is no file ${path}.`)
  if (found.size > MAX_BYTES) throw new Error("The image is larger than 5 MiB; make it smaller.")
  return readFile(path)
}

const fetchBytes = async (url: string, signal: AbortSignal): Promise<Uint8Array> => {
  const response = await fetch(url, { signal }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new Error("The URL of the image cannot be reached.", { cause: error })
  })
  if (!response.ok)
    throw new Error(`The URL of the image responded with status ${response.status}.`)
  return response.bytes()
}

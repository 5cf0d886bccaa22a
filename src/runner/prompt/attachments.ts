/** Prepares attachments for the model: passes images on, inlines text, transcribes speech, saves other files. */
import type { Inbound } from "../../wire/frames/index.ts"
import type { PreparedFiles } from "./prompt-body.ts"
import { AttachmentError, fetchFile, type MayFetch } from "./fetch-file.ts"
import { kindOf, safeName } from "./file-kind.ts"
import type { SaveFile } from "./save-file.ts"

export interface AttachmentOptions {
  readonly save: SaveFile
  readonly readPdf: (bytes: Uint8Array) => Promise<{ text: string; pages: number }>
  readonly transcribe: (bytes: Uint8Array, signal: AbortSignal) => Promise<string>
  readonly onTranscript: (prompt: Inbound<"prompt">, transcript: string) => void
  /** Which addresses are requested; by default none of this machine. */
  readonly mayFetch?: MayFetch
  /** Called for a file that failed, so that the author of the prompt is informed and not only the model. */
  readonly onProblem: (prompt: Inbound<"prompt">, problem: string) => void
}

interface Context extends AttachmentOptions {
  readonly prompt: Inbound<"prompt">
  readonly signal: AbortSignal
}

interface File {
  readonly name: string
  readonly mime: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** As many as a client may send. */
const MAX_FILES = 20
const MAX_BYTES = 25 * 1024 * 1024
/** At most this much of one file is inlined into the prompt, to save the model's context. */
const MAX_CHARS = 100_000

const NO_FILES: PreparedFiles = { files: [], notes: [] }

export const createAttachments =
  (options: AttachmentOptions) =>
  async (prompt: Inbound<"prompt">, signal: AbortSignal): Promise<PreparedFiles> => {
    const context: Context = { ...options, prompt, signal }
    const prepared: PreparedFiles[] = []
    let left = MAX_BYTES
    for (const [index, attachment] of (prompt.attachments ?? []).entries()) {
      const name = safeName(attachment.filename, index)
      try {
        if (index >= MAX_FILES)
          throw new AttachmentError(`a prompt can have at most ${MAX_FILES} files`)
        const bytes = await fetchFile(attachment.url, left, signal, options.mayFetch)
        left -= bytes.length
        prepared.push(await prepareFile(context, { name, mime: attachment.mime, bytes }))
      } catch (error) {
        prepared.push(problem(context, name, error))
      }
      signal.throwIfAborted()
    }
    return {
      files: prepared.flatMap(({ files }) => files),
      notes: prepared.flatMap(({ notes }) => notes),
    }
  }

const prepareFile = (context: Context, file: File): PreparedFiles | Promise<PreparedFiles> => {
  switch (kindOf(file.mime, file.name, file.bytes)) {
    case "image":
      return image(file)
    case "text":
      return text(context, file)
    case "pdf":
      return pdf(context, file)
    case "audio":
      return audio(context, file)
    case "other":
      return other(context, file)
  }
}

/** Passed as a data URL, so that OpenCode does not fetch it again and uses exactly the image that was sent. */
const image = ({ name, mime, bytes }: File): PreparedFiles => {
  const url = `data:${mime};base64,${Buffer.from(bytes).toString("base64")}`
  return { ...NO_FILES, files: [{ mime, url, filename: name }] }
}

const text = async (context: Context, file: File): Promise<PreparedFiles> => {
  const contents = new TextDecoder().decode(file.bytes)
  const isWhole = contents.length <= MAX_CHARS
  const path = isWhole ? undefined : await context.save(context.prompt.messageId, file)
  return note(inlined(file.name, contents, path))
}

const pdf = async (context: Context, file: File): Promise<PreparedFiles> => {
  const path = await context.save(context.prompt.messageId, file)
  const { text: contents, pages } = await context.readPdf(file.bytes).catch((error: unknown) => {
    throw new AttachmentError(`${describe(error)} (the file is saved as ${path})`, { cause: error })
  })
  if (contents === "") {
    return note(
      `The attached PDF "${file.name}" (${pages} pages) is saved as ${path}; it contains no text.`,
    )
  }
  const textFile = { name: `${file.name}.txt`, bytes: new TextEncoder().encode(contents) }
  const textPath = await context.save(context.prompt.messageId, textFile)
  const intro = `The attached PDF "${file.name}" (${pages} pages) is saved as ${path}, its text as ${textPath}.`
  return { ...NO_FILES, notes: [intro, inlined(file.name, contents, textPath)] }
}

const audio = async (context: Context, file: File): Promise<PreparedFiles> => {
  const { prompt, signal } = context
  try {
    const transcript = await context.transcribe(file.bytes, signal)
    context.onTranscript(prompt, transcript)
    return note(`The attached voice message "${file.name}" says: ${transcript}`)
  } catch (error) {
    signal.throwIfAborted()
    const path = await context.save(prompt.messageId, file)
    const why = `it could not be transcribed: ${describe(error)} (the file is saved as ${path})`
    throw new AttachmentError(why, { cause: error })
  }
}

const other = async (context: Context, file: File): Promise<PreparedFiles> => {
  const path = await context.save(context.prompt.messageId, file)
  return note(
    `The attached file "${file.name}" (${file.mime}, ${file.bytes.length} bytes) is saved as ${path}.`,
  )
}

const inlined = (name: string, contents: string, path: string | undefined): string => {
  const shown = contents.slice(0, MAX_CHARS)
  const rest = contents.length - shown.length
  const more = rest > 0 ? `\n(${rest} more characters: read ${path ?? "the file"})` : ""
  return `<attached-file name="${name}">\n${shown}\n</attached-file>${more}`
}

const note = (line: string): PreparedFiles => ({ ...NO_FILES, notes: [line] })

/** The prompt continues without the file; its author and the model get the reason. */
const problem = (
  { prompt, onProblem, signal }: Context,
  name: string,
  error: unknown,
): PreparedFiles => {
  signal.throwIfAborted()
  const why = `attachment "${name}": ${describe(error)}`
  onProblem(prompt, why)
  return note(`(There was a problem with an ${why}. Tell the user.)`)
}

const describe = (error: unknown): string =>
  error instanceof AttachmentError ? error.message : "it could not be read"

/** Turns the webhook calls of a chat service into prompts. The id of a message is the id of its prompt: repeats are one prompt. */
import type { Inbound } from "../../wire/frames/index.ts"
import { channelKey } from "../../wire/channel.ts"
import type { IncomingFile, IncomingMessage } from "./adapter.ts"
import type { Session } from "../session/session.ts"
import type { Chat } from "./configured-chats.ts"

type Prompt = Inbound<"prompt">
type Attachment = NonNullable<Prompt["attachments"]>[number]

const MAX_FILES = 10
const MAX_TOTAL_BYTES = 20 * 1024 * 1024

/** The service gets its response after the prompts are stored; until then it repeats the call. */
export const receiveChat = async (
  { adapter, session }: Chat,
  request: Request,
  find: (session: string) => Session | undefined,
): Promise<Response> => {
  const { response, messages } = await adapter.receive(request)
  for (const message of messages) {
    const { prompt, channel } = await promptOf(adapter.type, message)
    const target = find(session)
    if (target && target.status().status !== "ended") {
      target.prompt(prompt, channel, { fromChat: true })
      continue
    }
    // Without this, the person would wait for an answer that never comes.
    await adapter
      .send(
        message.channelId,
        "This session has ended and takes no messages.",
        `${message.id}/ended`,
      )
      .catch(() => {})
  }
  return response
}

const promptOf = async (
  channelType: string,
  { id, channelId, text, author, files }: IncomingMessage,
): Promise<{ readonly prompt: Prompt; readonly channel: string }> => {
  const { attachments, problems } = await loadFiles(files)
  const content = [text, ...problems].filter((line) => line !== "").join("\n\n")
  const prompt: Prompt = {
    type: "prompt",
    messageId: id,
    content: content === "" ? "See the attached files." : content,
    channelType,
    channelId,
    authorId: author.id,
    authorName: author.name,
    ...(attachments.length > 0 && { attachments }),
  }
  return { prompt, channel: channelKey(prompt) }
}

const loadFiles = async (files: readonly IncomingFile[]) => {
  const attachments: Attachment[] = []
  const problems: string[] = []
  let total = 0
  for (const [index, { mime, name, load }] of files.entries()) {
    const bytes =
      index < MAX_FILES && total < MAX_TOTAL_BYTES ? await load().catch(() => undefined) : undefined
    total += bytes?.length ?? 0
    if (bytes === undefined || total > MAX_TOTAL_BYTES)
      problems.push(`[The file ${name} could not be read.]`)
    else attachments.push({ type: "file", mime, filename: name, url: dataUrl(mime, bytes) })
  }
  return { attachments, problems }
}

const CHUNK = 0x8000

const dataUrl = (mime: string, bytes: Uint8Array): string => {
  let binary = ""
  for (let at = 0; at < bytes.length; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return `data:${mime};base64,${btoa(binary)}`
}

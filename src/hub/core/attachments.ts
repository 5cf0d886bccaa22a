/** Files that come with a prompt: their bytes go to the host's blobs, the prompt's row says which, the runner gets them whole. */
import type { Inbound } from "../../protocol/index.ts"
import type { Ports } from "./ports.ts"

type Prompt = Inbound<"prompt">
type Attachment = NonNullable<Prompt["attachments"]>[number]

const BASE64 = /^(data:[^,]*;base64,)([A-Za-z0-9+/=]*)$/i
const KEPT = /^kept:([^;]+);(.*)$/

export const stowAttachments = (
  { blobs, newId }: Pick<Ports, "blobs" | "newId">,
  prompt: Prompt,
): Prompt =>
  onAttachments(prompt, (attachment) => {
    const [, head, base64] = BASE64.exec(attachment.url) ?? []
    if (head === undefined || base64 === undefined) return attachment
    const id = newId()
    blobs.put(id, attachment.mime, base64)
    return { ...attachment, url: `kept:${id};${head}` }
  })

export const unstowAttachments = ({ blobs }: Pick<Ports, "blobs">, prompt: Prompt): Prompt =>
  onAttachments(prompt, (attachment) => {
    const [, id = "", head] = KEPT.exec(attachment.url) ?? []
    return head === undefined ? attachment : { ...attachment, url: `${head}${blobs.get(id) ?? ""}` }
  })

const onAttachments = (prompt: Prompt, change: (attachment: Attachment) => Attachment): Prompt =>
  prompt.attachments ? { ...prompt, attachments: prompt.attachments.map(change) } : prompt

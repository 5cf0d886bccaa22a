/** The text of a message: its own text parts, without those of sub-agents. Pure. */
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { childOf } from "../../view/turns.ts"

export const textOfMessage = ({ parts }: MessageWithParts): string =>
  parts
    .filter((part) => part.kind === "text" && childOf(part) === undefined)
    .map(({ text = "" }) => text)
    .join("\n\n")

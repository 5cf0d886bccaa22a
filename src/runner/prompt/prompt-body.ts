/** The request body of a prompt. The runner chooses the ids, so posting the same body twice is harmless. Pure. */
import type { MintId, PromptBody, PromptPart } from "../opencode/client/types.ts"

/** The result of preparing attachments: files for the model, and notes about the others. */
export interface PreparedFiles {
  readonly files: readonly {
    readonly mime: string
    readonly url: string
    readonly filename?: string
  }[]
  /** Texts placed before the prompt: contents, transcripts, paths of saved files, errors. */
  readonly notes: readonly string[]
}

export const promptBody = (
  content: string,
  attribution: string | undefined,
  { files, notes }: PreparedFiles,
  mint: MintId,
): PromptBody => {
  const messageID = mint("msg")
  const texts = [attribution, ...notes, content].filter((text) => text !== undefined && text !== "")
  return {
    messageID,
    parts: [
      ...files.map((file): PromptPart => ({ type: "file", id: mint("prt"), ...file })),
      { type: "text", id: mint("prt"), text: texts.join("\n\n") },
    ],
  }
}

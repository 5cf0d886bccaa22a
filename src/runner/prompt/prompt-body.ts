/** A prompt of the session agent as OpenCode takes it. The ids are ours, so that posting it twice is posting it once. Pure. */
import type { MintId, PromptBody, PromptPart } from "../opencode/client/types.ts"

/** What an attachment becomes: a file that the model sees, or words about it. */
export interface PreparedFiles {
  readonly files: readonly {
    readonly mime: string
    readonly url: string
    readonly filename?: string
  }[]
  /** Said before the prompt's own words: contents, transcripts, where a file was saved, what went wrong. */
  readonly notes: readonly string[]
}

export const promptBody = (
  content: string,
  attribution: string | undefined,
  { files, notes }: PreparedFiles,
  mint: MintId,
): PromptBody => {
  const messageID = mint("msg")
  const words = [attribution, ...notes, content].filter((text) => text !== undefined && text !== "")
  return {
    messageID,
    parts: [
      ...files.map((file): PromptPart => ({ type: "file", id: mint("prt"), ...file })),
      { type: "text", id: mint("prt"), text: words.join("\n\n") },
    ],
  }
}

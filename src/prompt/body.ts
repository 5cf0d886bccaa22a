/** A prompt of the session agent as OpenCode takes it. The ids are ours, so that posting it twice is posting it once. Pure. */
import { parseModel } from "../agent/models.ts"
import type { MintId, PromptBody, PromptPart } from "../agent/shapes.ts"
import type { Inbound } from "../protocol/index.ts"

export const promptBody = (
  prompt: Inbound<"prompt">,
  defaultModel: string | undefined,
  mint: MintId,
): PromptBody => {
  const messageID = mint("msg")
  const model = parseModel(prompt.model ?? prompt.modelPreferences?.[0] ?? defaultModel ?? "")
  const files = (prompt.attachments ?? []).map(({ mime, url, filename }): PromptPart => ({
    type: "file",
    id: mint("prt"),
    mime,
    url,
    ...(filename !== undefined && { filename }),
  }))
  return {
    messageID,
    ...(model && { model }),
    parts: [...files, { type: "text", id: mint("prt"), text: prompt.content }],
  }
}

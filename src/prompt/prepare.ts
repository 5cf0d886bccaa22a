/** Makes a prompt ready for OpenCode: its attachments read, its author named, its models chosen. */
import type { MintId, PromptBody } from "../agent/shapes.ts"
import type { Inbound } from "../protocol/index.ts"
import { attributionLine } from "./attribution.ts"
import { type PreparedFiles, promptBody } from "./body.ts"
import { modelChain } from "./model-chain.ts"

export interface PrepareOptions {
  readonly mint: MintId
  readonly attachments: (prompt: Inbound<"prompt">, signal: AbortSignal) => Promise<PreparedFiles>
}

export const createPrepare =
  ({ mint, attachments }: PrepareOptions) =>
  async (
    prompt: Inbound<"prompt">,
    { defaultModel }: { readonly defaultModel: string | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly body: PromptBody; readonly models: readonly string[] }> => {
    const models = modelChain(prompt, defaultModel)
    const files = await attachments(prompt, signal)
    return { body: promptBody(prompt.content, attributionLine(prompt), files, mint), models }
  }

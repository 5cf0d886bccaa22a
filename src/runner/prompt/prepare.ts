/** Prepares a prompt for OpenCode: reads its attachments, sets the git author, chooses the models. */
import type { MintId, PromptBody } from "../opencode/client/types.ts"
import type { Inbound } from "../../wire/frames/index.ts"
import { attributionLine } from "./attribution.ts"
import { type PreparedFiles, promptBody } from "./prompt-body.ts"
import { type AgentModels, modelChain } from "./model-chain.ts"

export interface PrepareOptions {
  readonly mint: MintId
  /** Sets the author of the commits made for this prompt. */
  readonly nameAuthor: (agentSessionId: string, prompt: Inbound<"prompt">) => Promise<void>
  readonly attachments: (prompt: Inbound<"prompt">, signal: AbortSignal) => Promise<PreparedFiles>
}

export const createPrepare =
  ({ mint, attachments, nameAuthor }: PrepareOptions) =>
  async (
    prompt: Inbound<"prompt">,
    context: AgentModels & { readonly agentSessionId: string },
    signal: AbortSignal,
  ): Promise<{ readonly body: PromptBody; readonly models: readonly string[] }> => {
    const models = modelChain(prompt, context)
    await nameAuthor(context.agentSessionId, prompt)
    const files = await attachments(prompt, signal)
    return { body: promptBody(prompt.content, attributionLine(prompt), files, mint), models }
  }

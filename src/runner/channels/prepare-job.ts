/** Turns a job into the request body for OpenCode. The ids are chosen here, so posting the same body twice is harmless. */
import { existingModel } from "../prompt/model-chain.ts"
import type { ChannelPorts, ReadyAgent } from "./channels.ts"
import type { Job } from "./jobs.ts"
import type { Posting } from "./turn-effects.ts"

export interface PreparedJob {
  readonly posting: Posting
  /** The id that the user message will have in OpenCode. */
  readonly userMessageId: string
  readonly models: readonly string[]
}

export const prepareJob = async (
  job: Job,
  { defaultModel, models: known }: ReadyAgent,
  agentSessionId: string,
  { prepare, mint }: Pick<ChannelPorts, "prepare" | "mint">,
  signal: AbortSignal,
): Promise<PreparedJob> => {
  if (job.type === "prompt") {
    const context = { defaultModel, ...(known && { models: known }), agentSessionId }
    const { body, models } = await prepare(job, context, signal)
    return { posting: { kind: "prompt", body }, userMessageId: body.messageID, models }
  }
  const messageID = mint("msg")
  return {
    posting: {
      kind: "command",
      body: { command: job.command, arguments: job.args ?? "", messageID },
    },
    userMessageId: messageID,
    models: [existingModel(defaultModel)],
  }
}

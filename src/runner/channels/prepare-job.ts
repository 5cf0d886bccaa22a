/** A job made ready for OpenCode: its ids are chosen here, so that giving it twice is giving it once. */
import type { ChannelPorts, ReadyAgent } from "./channels.ts"
import type { Job } from "./jobs.ts"
import type { Posting } from "./turn-effects.ts"

export interface ReadyJob {
  readonly posting: Posting
  /** The user message that it becomes. */
  readonly userMessageId: string
  readonly models: readonly string[]
}

export const makeReady = async (
  job: Job,
  { defaultModel }: ReadyAgent,
  sessionId: string,
  { prepare, mint }: Pick<ChannelPorts, "prepare" | "mint">,
  signal: AbortSignal,
): Promise<ReadyJob> => {
  if (job.type === "prompt") {
    const { body, models } = await prepare(job, { defaultModel, sessionId }, signal)
    return { posting: { kind: "prompt", body }, userMessageId: body.messageID, models }
  }
  const messageID = mint("msg")
  return {
    posting: {
      kind: "command",
      body: { command: job.command, arguments: job.args ?? "", messageID },
    },
    userMessageId: messageID,
    models: defaultModel === undefined ? [] : [defaultModel],
  }
}

/** What a channel works through, one after the other: prompts, and commands, which are turns like any other. Pure. */
import type { Inbound } from "../../wire/frames/index.ts"
import { addressOf, type ChannelAddress } from "../../wire/channel.ts"

export type Job = Inbound<"prompt"> | Inbound<"opencode-command">

/** The session agent's id of it: a job with the same id is the same job. */
export const jobId = (job: Job): string => (job.type === "prompt" ? job.messageId : job.requestId)

export const jobAddress = (job: Job): ChannelAddress => addressOf(job)

/** A job of a channel: a prompt, or an OpenCode command, which runs as a turn like a prompt. Pure. */
import type { Inbound } from "../../wire/frames/index.ts"
import { addressOf, type ChannelAddress } from "../../wire/channel.ts"

export type Job = Inbound<"prompt"> | Inbound<"opencode-command">

/** The id that the session agent chose. A job with the same id is a duplicate. */
export const jobId = (job: Job): string => (job.type === "prompt" ? job.messageId : job.requestId)

export const jobAddress = (job: Job): ChannelAddress => addressOf(job)

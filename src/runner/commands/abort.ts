/** `abort`: cancels running and queued jobs on one channel or on all; sends `aborted` when they have ended. */
import { addressOf } from "../../wire/channel.ts"
import { sleep } from "../../lib/clock.ts"
import type { Command } from "./command.ts"

/** `aborted` is sent after this time even if OpenCode has not stopped. */
const LIMIT_MS = 15_000
const STOPPED = "stopped by the user"

export const abort: Command<"abort"> = async ({ channels, workflows, send, clock }, frame) => {
  // An incomplete address means the default channel, but an abort without any address means all channels.
  const isScoped = frame.channelType !== undefined || frame.channelId !== undefined
  const address = isScoped ? addressOf(frame) : undefined
  const finished = new AbortController()
  await Promise.race([
    Promise.all([workflows.stop(address, STOPPED), channels.stop(address, STOPPED)]),
    sleep(clock, LIMIT_MS, finished.signal),
  ])
  finished.abort()
  send({ type: "aborted", ...address })
}

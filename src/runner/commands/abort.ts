/** `abort`: ends what runs and waits, on one channel or on all; `aborted` follows when it has really ended. */
import { addressOf } from "../../wire/channel.ts"
import { sleep } from "../../lib/clock.ts"
import type { Command } from "./command.ts"

/** An agent that does not stop must not leave the session agent without an answer. */
const LIMIT_MS = 15_000
const STOPPED = "stopped by the user"

export const abort: Command<"abort"> = async ({ channels, workflows, send, clock }, frame) => {
  // Half an address is none here too, but an abort without any means every channel.
  const isScoped = frame.channelType !== undefined || frame.channelId !== undefined
  const address = isScoped ? addressOf(frame) : undefined
  const waited = new AbortController()
  await Promise.race([
    Promise.all([workflows.stop(address, STOPPED), channels.stop(address, STOPPED)]),
    sleep(clock, LIMIT_MS, waited.signal),
  ])
  waited.abort()
  send({ type: "aborted", ...address })
}

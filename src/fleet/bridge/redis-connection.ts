/** One connection to Redis whose commands have a deadline. After a failure it is closed and another one is opened. */
import { RedisClient } from "bun"
import type { Clock } from "../../lib/clock.ts"

export interface RedisConnection {
  readonly send: (command: string, args: readonly string[]) => Promise<void>
  readonly close: () => void
}

const DEADLINE_MS = 5000

/** Rejects if the work takes too long. */
const inTime = async <T>(clock: Clock, what: string, work: Promise<T>): Promise<T> => {
  const late = Promise.withResolvers<never>()
  const cancel = clock.after(DEADLINE_MS, () =>
    late.reject(new Error(`Redis did not answer ${what} in time`)),
  )
  try {
    return await Promise.race([work, late.promise])
  } finally {
    cancel()
  }
}

export const openRedis = async (url: string, clock: Clock): Promise<RedisConnection> => {
  const client = new RedisClient(url, { autoReconnect: false, connectionTimeout: DEADLINE_MS })
  try {
    await inTime(clock, "the connection", client.connect())
  } catch (error) {
    client.close()
    throw error
  }
  return {
    send: async (command, args) => {
      await inTime(clock, command, client.send(command, [...args]))
    },
    close: () => client.close(),
  }
}

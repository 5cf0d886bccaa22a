/**
 * Hears of changes that other replicas store, by LISTEN. Behind a connection pool in transaction mode a notification never
 * arrives, so a probe shows whether they do; until it has arrived, waiters have to read again and again.
 */
import type { SQL } from "bun"
import { systemClock } from "../../lib/clock.ts"
import type { Changes } from "./changes.ts"

const CHANNEL = "sandpiper_sessions"
const PROBE = "probe"
const RETRY_MS = 5000
/** The payload of a notification has less than 8000 bytes. */
const MAX_ID = 1000

export interface Listener {
  /** For `pg_notify` in the transaction of a change: channel and payload. */
  readonly channel: string
  readonly payloadOf: (session: string) => string
  /** Whether changes of other replicas are heard of. */
  readonly isHeard: () => boolean
  readonly stop: () => Promise<void>
}

export const listenForChanges = (sql: SQL, changes: Changes): Listener => {
  /** Changes of this process are known without a notification. */
  const origin = crypto.randomUUID()
  let probe = ""
  let isHeard = false
  let isStopped = false
  let cancel = () => {}

  const hear = (payload: string) => {
    if (payload === `${PROBE} ${probe}`) isHeard = true
    const [from, ...rest] = payload.split(" ")
    if (from === origin || from === PROBE) return
    const session = rest.join(" ")
    changes.emit(session === "" ? undefined : session)
  }

  /** Also after the connection was lost: notifications of the time between are lost, too. */
  const begin = () => {
    isHeard = false
    probe = crypto.randomUUID()
    changes.emit(undefined)
    // A failed probe leaves the waiters polling.
    sql.notify(CHANNEL, `${PROBE} ${probe}`).catch(() => {})
  }

  const subscribe = async (): Promise<SQL.ListenSubscription | undefined> => {
    try {
      return await sql.listen(CHANNEL, hear, begin)
    } catch {
      if (isStopped) return undefined
      await new Promise<void>((resolve) => {
        const stopWaiting = systemClock.after(RETRY_MS, resolve)
        cancel = () => {
          stopWaiting()
          resolve()
        }
      })
      return isStopped ? undefined : subscribe()
    }
  }
  const subscribed = subscribe()

  return {
    channel: CHANNEL,
    payloadOf: (session) => `${origin} ${session.length > MAX_ID ? "" : session}`,
    isHeard: () => isHeard,
    stop: async () => {
      isStopped = true
      cancel()
      const subscription = await subscribed
      await subscription?.unlisten().catch(() => {})
    },
  }
}

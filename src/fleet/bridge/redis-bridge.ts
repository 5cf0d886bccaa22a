/**
 * Publishes the sandbox of each session in Redis for other programs. It only writes: the store is the truth, and a Redis
 * that is down, slow or wrong changes nothing but what those programs see.
 */
import { doubledMs } from "../../lib/backoff.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { bridgeEntry, bridgeKey, bridgeMark, usableRef } from "../core/bridge-entry.ts"
import { previewUrl } from "../core/statuses.ts"
import { redactError } from "../core/redact.ts"
import type { ProviderResult, SandboxProvider } from "../providers/contract.ts"
import { publicGateway } from "../providers/public-gateway.ts"
import type { FleetStore, StoredSession } from "../store/ports.ts"
import type { Bridge } from "./bridge.ts"
import { openRedis, type RedisConnection } from "./redis-connection.ts"

export interface RedisBridgeOptions {
  readonly url: string
  readonly store: Pick<FleetStore, "find" | "present" | "lease">
  readonly provider: Pick<SandboxProvider, "name" | "can" | "address" | "publicAddress">
  /** The name of this process among the replicas. */
  readonly replica: string
  readonly clock: Clock
  readonly log: Log
}

const KEEP_SECONDS = 86_400
const REFRESH_MS = 3_600_000
const RETRY_MS = { min: 1000, max: 60_000 }

export const createRedisBridge = (options: RedisBridgeOptions): Bridge => {
  const { store, provider, clock, log } = options
  /** Sessions to be written, and whether this happens although nothing has changed. */
  const dirty = new Map<string, boolean>()
  /** What was written last about each session that has not ended. */
  const written = new Map<string, string>()
  /** Running sandboxes whose address the provider has not said, and how often it was asked in a row. */
  const unanswered = new Map<string, { readonly attempts: number; readonly cancel: () => void }>()
  let connection: RedisConnection | undefined
  let running: Promise<void> | undefined
  let failures = 0
  let stopped = false
  let cancelRetry: (() => void) | undefined
  let cancelRefresh = () => {}

  /** Null: there is none, and a retry does not help. Unknown: the provider has not said it. */
  const addressOf = async (
    session: StoredSession | null | undefined,
  ): Promise<ProviderResult<string | null>> => {
    const none = { is: "ok", value: null } as const
    if (session?.life.phase !== "running" || session.life.ref === undefined) return none
    const found = await publicGateway(provider, session.life.ref)
    if (found.is === "unknown") return found
    return found.is === "ok" ? { is: "ok", value: previewUrl(found.value) } : none
  }

  const askAgain = (id: string, { why, afterMs = 0 }: { why: string; afterMs?: number }): void => {
    const before = unanswered.get(id)
    before?.cancel()
    if (stopped) return
    if (!before) log.warn("bridge.no-address", { session: id, why })
    const attempts = before?.attempts ?? 0
    const cancel = clock.after(Math.max(afterMs, doubledMs(attempts, RETRY_MS)), () =>
      write(id, true),
    )
    unanswered.set(id, { attempts: attempts + 1, cancel })
  }

  const publish = async (redis: RedisConnection, id: string, always: boolean): Promise<void> => {
    // Read now: what the session was when it changed may be out of date.
    const session = await store.find(id)
    if (session && !always && written.get(id) === bridgeMark(session.life)) return
    const address = await addressOf(session)
    if (address.is === "unknown") {
      askAgain(id, address)
      // What is written about this sandbox is still right, and may have its address.
      if (session && written.get(id) === bridgeMark(session.life)) return
    } else {
      unanswered.get(id)?.cancel()
      unanswered.delete(id)
    }
    const url = address.is === "ok" ? address.value : null
    const entry = session && bridgeEntry(session.life, provider, url)
    // A change during the writes has another mark, and is written again.
    if (session && session.life.phase !== "ended") written.set(id, bridgeMark(session.life))
    else written.delete(id)
    const key = bridgeKey(id)
    const text = entry ? JSON.stringify(entry) : ""
    if (entry) await redis.send("SET", [key, text, "EX", String(KEEP_SECONDS)])
    else await redis.send("DEL", [key])
    await redis.send("PUBLISH", [key, text])
  }

  const flush = async (): Promise<void> => {
    for (;;) {
      const [next] = dirty
      if (next === undefined || stopped) return
      const [id, always] = next
      dirty.delete(id)
      try {
        connection ??= await openRedis(options.url, clock)
        await publish(connection, id, always)
        if (failures > 0) log.info("bridge.redis-back")
        failures = 0
      } catch (error) {
        dirty.set(id, true)
        written.delete(id)
        connection?.close()
        connection = undefined
        const why = redactError(describeError(error), [options.url])
        // Once per outage.
        if (failures === 0) log.warn("bridge.redis-down", { error: why })
        failures += 1
        cancelRetry = clock.after(doubledMs(failures - 1, RETRY_MS), () => {
          cancelRetry = undefined
          work()
        })
        return
      }
    }
  }

  /** One writer at a time, and none while it waits for its next attempt. */
  const work = (): void => {
    if (running || cancelRetry || stopped) return
    running = flush().finally(() => {
      running = undefined
      if (dirty.size > 0) work()
    })
  }

  const write = (id: string, always: boolean): void => {
    dirty.set(id, always || dirty.get(id) === true)
    work()
  }

  /** Entries end after a day: one replica writes all of them again every hour. */
  const refresh = async (): Promise<void> => {
    const at = clock.now()
    try {
      if (await store.lease("bridge", options.replica, at, at + REFRESH_MS / 2))
        for (const { id, life } of await store.present())
          if (usableRef(life) !== undefined) write(id, true)
    } catch (error) {
      log.warn("bridge.refresh-failed", { error: describeError(error) })
    }
    if (!stopped) cancelRefresh = clock.after(REFRESH_MS, () => void refresh())
  }

  return {
    changed: ({ id, life }) => {
      if (written.get(id) !== bridgeMark(life)) write(id, false)
    },
    forgotten: (id) => write(id, true),
    start: () => void refresh(),
    stop: async () => {
      stopped = true
      cancelRefresh()
      cancelRetry?.()
      for (const { cancel } of unanswered.values()) cancel()
      connection?.close()
      await running
      connection?.close()
    },
  }
}

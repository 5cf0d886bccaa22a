/** The records of `serve`: SQLite or PostgreSQL, and Redis beside it for other programs. */
import { join } from "node:path"
import { bridgedStore } from "../fleet/bridge/bridged-store.ts"
import type { SandboxProvider } from "../fleet/providers/contract.ts"
import type { FleetStore } from "../fleet/store/ports.ts"
import { openPostgresStore } from "../fleet/store/postgres-store.ts"
import { openSqliteStore } from "../fleet/store/sqlite-store.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"

const isRedisUrl = (text: string): boolean =>
  URL.canParse(text) && /^rediss?:$/.test(new URL(text).protocol)

export const openStore = async (
  settings: Settings,
  provider: SandboxProvider,
  log: Log,
): Promise<FleetStore> => {
  const { databaseUrl, redisUrl: url } = settings
  if (url !== undefined && !isRedisUrl(url))
    throw new SettingsError("REDIS_URL must be a redis:// or rediss:// URL")
  const store =
    databaseUrl === undefined
      ? openSqliteStore(join(settings.stateDir, "fleet", "fleet.db"))
      : await openPostgresStore(databaseUrl)
  if (url === undefined) return store
  const { createRedisBridge } = await import("../fleet/bridge/redis-bridge.ts")
  const replica = crypto.randomUUID()
  const bridge = createRedisBridge({ url, store, provider, replica, clock: systemClock, log })
  bridge.start()
  return bridgedStore(store, bridge)
}

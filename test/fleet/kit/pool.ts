/** A warm pool on a store of a test, with a keeper of its own and a hub that accepts everything. */
import { createPool, type PoolOptions } from "../../../src/fleet/pool.ts"
import type { SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import { createQuotas, type OwnerQuotas } from "../../../src/fleet/quotas.ts"
import type { FleetStore } from "../../../src/fleet/store/ports.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "./fleet.ts"

export const poolOn = async (
  store: FleetStore,
  size: number,
  hub: Partial<PoolOptions["hub"]>,
  more: Partial<Pick<PoolOptions, "clock" | "replica">> & {
    readonly provider?: SandboxProvider
    readonly quotas?: OwnerQuotas
  } = {},
) => {
  const { provider = memoryProvider(), clock = systemClock, replica = "r1" } = more
  const quotas = more.quotas ?? createQuotas({ store, clock, quotas: {} })
  const { keeper } = await keeperOn(store, provider, replica, { clock, quotas })
  const pool = createPool({
    store,
    keeper,
    quotas,
    hub: {
      reserve: async () => {},
      handOver: async () => {},
      takesGitCredentials: async () => false,
      end: async () => {},
      ...hub,
    },
    provider,
    size,
    runtimeKey: "v1",
    environmentOf: () => ({ providerKeys: {}, credentials: {}, github: {} }),
    added: async () => {},
    replica,
    clock,
    log: silentLog,
  })
  return { pool, keeper }
}

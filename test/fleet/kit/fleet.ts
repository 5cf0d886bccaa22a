/** A keeper on a store with a provider in memory, whose faults a test sets. */
import {
  type Caretaker,
  type CaretakerOptions,
  createCaretaker,
} from "../../../src/fleet/caretaker.ts"
import type { LifePolicy } from "../../../src/fleet/core/life.ts"
import { createKeeper, type Keeper, type KeeperOptions } from "../../../src/fleet/keeper.ts"
import type { Capabilities, SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import { createNoopProvider } from "../../../src/fleet/providers/noop.ts"
import type { FleetStore } from "../../../src/fleet/store/ports.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { createLog } from "../../../src/lib/log.ts"

export const silentLog = createLog({
  level: "error",
  format: "json",
  secrets: [],
  write: () => {},
  now: Date.now,
})

export interface MemoryProvider extends SandboxProvider {
  /** Every call in order, as `name ref`. */
  readonly calls: readonly string[]
}

/** Counts calls. `fault` may replace an answer before or after the call was carried out. */
export const memoryProvider = (
  can: Partial<Capabilities> = {},
  fault: (call: string) => "before" | "after" | undefined = () => undefined,
): MemoryProvider => {
  const inner = createNoopProvider(Date.now)
  const calls: string[] = []
  const lost = { is: "unknown", why: "the answer was lost" } as const
  const wrap = <Arguments extends readonly unknown[], Value extends { readonly is: string }>(
    name: string,
    run: (...args: Arguments) => Promise<Value>,
  ) => {
    return async (...args: Arguments): Promise<Value | typeof lost> => {
      calls.push(name)
      const kind = fault(name)
      if (kind === "before") return lost
      const value = await run(...args)
      return kind === "after" ? lost : value
    }
  }
  return {
    ...inner,
    can: { ...inner.can, ...can },
    calls,
    create: wrap("create", inner.create),
    look: wrap("look", inner.look),
    pause: wrap("pause", inner.pause),
    resume: wrap("resume", inner.resume),
    terminate: wrap("terminate", inner.terminate),
  }
}

export interface TestFleet {
  readonly keeper: Keeper
  readonly notes: readonly string[]
}

export const policyFor = ({ can }: SandboxProvider): LifePolicy => ({
  can,
  bootMs: 120_000,
  relinkMs: 60_000,
  idleMs: 900_000,
  pausedMs: undefined,
  minimumVersion: undefined,
})

export const keeperOn = async (
  store: FleetStore,
  provider: SandboxProvider,
  replica = "r1",
  more: Partial<KeeperOptions> = {},
): Promise<TestFleet> => {
  const notes: string[] = []
  const deployment = await store.deployment()
  const keeper = createKeeper({
    store,
    provider,
    deployment,
    idleMs: 900_000,
    lifeMs: 86_400_000,
    version: "1.0.0",
    replica,
    clock: systemClock,
    log: silentLog,
    policy: policyFor(provider),
    note: (_session, text) => void notes.push(text),
    specOf: async ({ id, tenant }, { generation, snapshot }) => ({
      session: id,
      generation,
      name: `sp-${id}-${generation}`,
      labels: { deployment, tenant, session: id, generation: String(generation) },
      image:
        snapshot === undefined ? { kind: "image", id: "base" } : { kind: "snapshot", id: snapshot },
      environment: {},
      volumes: [],
      ports: [9000],
      resources: {},
      idleMs: 900_000,
      lifeMs: 86_400_000,
    }),
    ...more,
  })
  return { keeper, notes }
}

const DAY_MS = 86_400_000

/** A caretaker with the times that `serve` has by default. */
export const testCaretaker = (
  options: Pick<CaretakerOptions, "store" | "provider" | "clock"> & Partial<CaretakerOptions>,
): Caretaker =>
  createCaretaker({
    replica: "r1",
    runtimeKey: "v1",
    log: silentLog,
    keeper: { want: async () => undefined },
    idleMs: 900_000,
    idleBufferMs: 1_800_000,
    volumeMs: 7 * DAY_MS,
    historyMs: 90 * DAY_MS,
    ...options,
  })

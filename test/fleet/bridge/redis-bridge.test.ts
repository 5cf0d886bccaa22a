/** The bridge to Redis with a keeper, a store and a double of Redis that works, fails and lies. */
import { afterEach, describe, expect, test } from "bun:test"
import { bridgedStore } from "../../../src/fleet/bridge/bridged-store.ts"
import { createRedisBridge } from "../../../src/fleet/bridge/redis-bridge.ts"
import { bridgeEntry, bridgeMark } from "../../../src/fleet/core/bridge-entry.ts"
import type { SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import type { StoredSession } from "../../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../../src/fleet/store/sqlite-store.ts"
import { type Clock, systemClock } from "../../../src/lib/clock.ts"
import { createManualClock } from "../../kit/clock.ts"
import { freePort } from "../../kit/free-port.ts"
import { keeperOn, memoryProvider, silentLog } from "../kit/fleet.ts"
import { changedLife, type Flags, lifeWith } from "../kit/life.ts"
import { type RedisDouble, startRedisDouble } from "../kit/redis-double.ts"
import { untilTrue } from "../../kit/until-true.ts"

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const limit = () => AbortSignal.timeout(60_000)
const isRunning = ({ life }: StoredSession) => life.phase === "running"

const addressOf: SandboxProvider["address"] = async (ref) => ({
  is: "ok",
  value: { url: `http://127.0.0.1/${ref}`, headers: {} },
})

const stage = async (
  redis: RedisDouble,
  options: {
    clock?: Clock
    url?: string
    beforeCreate?: () => Promise<void>
    address?: SandboxProvider["address"]
  } = {},
) => {
  cleanups.push(redis.stop)
  const store = openSqliteStore(":memory:")
  const warnings: string[] = []
  const memory = memoryProvider()
  const provider: SandboxProvider = {
    ...memory,
    create: async (spec, signal) => {
      await options.beforeCreate?.()
      return memory.create(spec, signal)
    },
    address: options.address ?? addressOf,
  }
  const bridge = createRedisBridge({
    url: options.url ?? redis.url,
    store,
    provider,
    replica: "r1",
    clock: options.clock ?? systemClock,
    log: {
      ...silentLog,
      warn: (event, fields) => void warnings.push(JSON.stringify([event, fields])),
    },
  })
  const bridged = bridgedStore(store, bridge)
  const { keeper } = await keeperOn(bridged, provider)
  cleanups.push(async () => {
    await keeper.stop()
    await bridged.close()
  })
  await keeper.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} })
  return { store: bridged, bridge, keeper, warnings }
}

const entry = (redis: RedisDouble) => {
  const found = redis.values.get("sandbox:s")
  return found && (JSON.parse(found.text) as Record<string, unknown>)
}

describe("the bridge to Redis", () => {
  test("a running sandbox is set for a day and published, and deleted at its end", async () => {
    const redis = await startRedisDouble()
    const { keeper } = await stage(redis)
    await keeper.want("s", "running")
    await untilTrue(() => entry(redis)?.["containerUrl"] !== undefined, "the entry")
    await untilTrue(() => entry(redis)?.["containerUrl"] !== null, "its address")
    expect(entry(redis)).toEqual({
      providerSandboxId: "sp-s-1",
      provider: "noop",
      containerUrl: "http://127.0.0.1/sp-s-1/t/preview/",
      isNewProvision: false,
    })
    expect(redis.values.get("sandbox:s")?.seconds).toBe(86_400)
    await untilTrue(() => redis.commands.at(-1)?.[0] === "PUBLISH", "the message")
    expect(redis.commands.at(-1)).toEqual(["PUBLISH", "sandbox:s", JSON.stringify(entry(redis))])
    await keeper.want("s", "ended")
    await untilTrue(() => entry(redis) === undefined, "the deletion")
  })

  test("the entry of a former sandbox is deleted before the next one exists", async () => {
    const redis = await startRedisDouble()
    redis.values.set("sandbox:s", { text: '{"providerSandboxId":"gone"}', seconds: 1 })
    const gate = Promise.withResolvers<void>()
    const { keeper } = await stage(redis, { beforeCreate: () => gate.promise })
    await keeper.want("s", "running")
    await untilTrue(() => entry(redis) === undefined, "the deletion")
    gate.resolve()
    await untilTrue(() => entry(redis)?.["providerSandboxId"] === "sp-s-1", "the new entry")
  })

  test("a sleeping sandbox stays known without an address", async () => {
    const redis = await startRedisDouble()
    const { keeper } = await stage(redis)
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await keeper.want("s", "asleep")
    await untilTrue(() => entry(redis)?.["containerUrl"] === null, "the entry without an address")
    expect(entry(redis)).toMatchObject({ providerSandboxId: "sp-s-1" })
  })

  test("changes that other programs do not see are not written", async () => {
    const redis = await startRedisDouble()
    const { keeper } = await stage(redis)
    await keeper.want("s", "running")
    await untilTrue(() => typeof entry(redis)?.["containerUrl"] === "string", "the entry")
    const before = redis.commands.length
    for (const busy of [true, false, true, false])
      await keeper.runner("s", { generation: 1, linked: true, busy })
    await keeper.want("s", "ended")
    await untilTrue(() => entry(redis) === undefined, "the deletion")
    const since = redis.commands.slice(before).map(([name]) => name)
    expect(since.filter((name) => name === "SET")).toEqual([])
  })

  test("a record that is forgotten loses its entry", async () => {
    const redis = await startRedisDouble()
    const { keeper, store } = await stage(redis)
    await keeper.want("s", "running")
    await untilTrue(() => typeof entry(redis)?.["containerUrl"] === "string", "the entry")
    await store.forget("s")
    await untilTrue(() => entry(redis) === undefined, "the deletion")
  })

  test("without a Redis the sandboxes live as before, and the entry is written when it is back", async () => {
    const port = freePort()
    const first = await startRedisDouble(port)
    await first.stop()
    const { keeper, warnings } = await stage(
      { ...first, stop: async () => {} },
      { url: `redis://:a-password-of-redis@127.0.0.1:${port}` },
    )
    await keeper.want("s", "running")
    expect((await keeper.waitFor("s", isRunning, limit()))?.life.ref).toBe("sp-s-1")
    await untilTrue(() => warnings.length > 0, "the warning")
    expect(warnings).toHaveLength(1)
    expect(warnings.join()).toContain("bridge.redis-down")
    expect(warnings.join()).not.toContain("a-password-of-redis")
    const back = await startRedisDouble(port)
    cleanups.push(back.stop)
    await untilTrue(
      () => entry(back)?.["providerSandboxId"] === "sp-s-1",
      "the entry after the outage",
    )
  })

  test("a cut connection is opened again and nothing is lost", async () => {
    const redis = await startRedisDouble()
    const { keeper } = await stage(redis)
    await keeper.want("s", "running")
    await untilTrue(() => typeof entry(redis)?.["containerUrl"] === "string", "the entry")
    redis.cut()
    await keeper.want("s", "ended")
    await untilTrue(() => entry(redis) === undefined, "the deletion over a new connection")
  })

  for (const mode of ["lie", "error"] as const)
    test(`a Redis in the mode "${mode}" changes nothing for the sandboxes`, async () => {
      const redis = await startRedisDouble()
      redis.setMode(mode)
      redis.values.set("sandbox:s", { text: '{"providerSandboxId":"wrong"}', seconds: 1 })
      const { keeper, store } = await stage(redis)
      await keeper.want("s", "running")
      await keeper.waitFor("s", isRunning, limit())
      await untilTrue(() => redis.commands.length > 2, "the commands of the bridge")
      expect((await store.find("s"))?.life.ref).toBe("sp-s-1")
      await keeper.want("s", "ended")
      const ended = await keeper.waitFor("s", ({ life }) => life.phase === "ended", limit())
      expect(ended?.life.phase).toBe("ended")
    })

  test("a Redis that does not answer is given up after its deadline and tried again", async () => {
    const redis = await startRedisDouble()
    redis.setMode("hang")
    const clock = createManualClock(Date.now())
    const { keeper, warnings } = await stage(redis, { clock })
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await untilTrue(() => redis.commands.length > 0, "the first command")
    clock.advance(5000)
    await untilTrue(() => warnings.length > 0, "the warning")
    redis.setMode("work")
    clock.advance(1000)
    await untilTrue(() => entry(redis)?.["providerSandboxId"] === "sp-s-1", "the entry")
  })

  test("every hour all entries are written again, also those that Redis has lost", async () => {
    const redis = await startRedisDouble()
    const clock = createManualClock(Date.now())
    const { keeper, bridge } = await stage(redis, { clock })
    await keeper.want("s", "running")
    await untilTrue(() => typeof entry(redis)?.["containerUrl"] === "string", "the entry")
    bridge.start()
    redis.values.clear()
    await untilTrue(() => entry(redis) !== undefined, "the entry after the start")
    redis.values.clear()
    clock.advance(3_600_000)
    await untilTrue(() => {
      // The hour may have passed during a command, whose next attempt needs time, too.
      clock.advance(100)
      return entry(redis) !== undefined
    }, "the entry after an hour")
  })

  test("an address that the provider does not say at once follows soon", async () => {
    const redis = await startRedisDouble()
    const clock = createManualClock(Date.now())
    let isAway = true
    let asked = 0
    const { keeper, warnings } = await stage(redis, {
      clock,
      address: async (ref, port) => {
        asked += 1
        return isAway ? { is: "unknown", why: "429", afterMs: 3000 } : addressOf(ref, port)
      },
    })
    await keeper.want("s", "running")
    await untilTrue(() => entry(redis)?.["containerUrl"] === null, "the entry without an address")
    clock.advance(2999)
    expect(asked).toBe(1)
    clock.advance(1)
    await untilTrue(() => asked === 2, "the second question")
    isAway = false
    await untilTrue(() => {
      clock.advance(100)
      return entry(redis)?.["containerUrl"] === "http://127.0.0.1/sp-s-1/t/preview/"
    }, "the address")
    expect(asked).toBe(3)
    // The second question wrote nothing: the entry was as before.
    expect(redis.commands.filter(([name]) => name === "SET")).toHaveLength(2)
    expect(warnings.filter((text) => text.includes("bridge.no-address"))).toHaveLength(1)
  })

  test("a refresh during which the provider is away leaves the address that is written", async () => {
    const redis = await startRedisDouble()
    const clock = createManualClock(Date.now())
    let isAway = false
    let asked = 0
    const { keeper, bridge } = await stage(redis, {
      clock,
      address: async (ref, port) => {
        asked += 1
        return isAway ? { is: "unknown", why: "timeout" } : addressOf(ref, port)
      },
    })
    await keeper.want("s", "running")
    await untilTrue(() => typeof entry(redis)?.["containerUrl"] === "string", "the entry")
    isAway = true
    const before = asked
    bridge.start()
    await untilTrue(() => asked > before, "the refresh")
    // The bridge writes one after the other: this is written after the refresh.
    bridge.forgotten("other")
    await untilTrue(
      () => redis.commands.some((words) => words.includes("sandbox:other")),
      "the end",
    )
    expect(typeof entry(redis)?.["containerUrl"]).toBe("string")
  })
})

describe("the entry of a session", () => {
  const life = (flags: Flags) => lifeWith({ ref: "r", ...flags })
  const noop = { name: "noop", can: { volumes: false } } as const

  test("a sandbox whose runner has not connected has none, and one that connects again keeps it", () => {
    expect(bridgeEntry(life({ phase: "booting" }), noop, null)).toBeUndefined()
    expect(bridgeEntry(life({ phase: "booting", touched: true }), noop, null)).toBeDefined()
    expect(bridgeEntry(lifeWith({ touched: true }), noop, null)).toBeUndefined()
  })

  test("a later generation is new if neither a snapshot nor a volume has brought the files", () => {
    const isNew = (flags: Flags, volumes = false) =>
      bridgeEntry(life({ phase: "running", ...flags }), { ...noop, can: { volumes } }, null)
        ?.isNewProvision
    expect(isNew({ generation: 1 })).toBe(false)
    expect(isNew({ generation: 2 })).toBe(true)
    expect(isNew({ generation: 2, snapshot: { id: "x" } })).toBe(false)
    expect(isNew({ generation: 2 }, true)).toBe(false)
  })

  test("work and idle time do not change the mark of an entry, sleep does", () => {
    const running = life({ phase: "running", touched: true })
    expect(bridgeMark(changedLife(running, { busy: true, idleAt: 7 }))).toBe(bridgeMark(running))
    expect(bridgeMark(changedLife(running, { phase: "paused" }))).not.toBe(bridgeMark(running))
  })
})

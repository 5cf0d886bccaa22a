/** How a base snapshot is made, with a provider in memory and a gateway that says whether its agent is ready. */
import { afterEach, expect, test } from "bun:test"
import { createBaseSnapshots } from "../../src/fleet/base-snapshot.ts"
import type { HubPort } from "../../src/fleet/hub-port.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

const hub = {
  reserve: async () => {},
  gatewayKey: async () => "a gateway key of the tests",
  end: async () => {},
} satisfies Partial<HubPort>

for (const kind of ["copy", "pause", "stop"] as const)
  test(`a provider whose snapshot is of the kind ${kind} makes one base snapshot, another one only if it is told to, and keeps no sandbox of it`, async () => {
    const gateway = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("ok") })
    ends.push(() => gateway.stop(true))
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const inner = memoryProvider({ snapshot: kind, exec: true })
    const commands: string[] = []
    let asked = 0
    let made = 0
    const provider: SandboxProvider = {
      ...inner,
      // The provider is away for a moment: the build goes on.
      address: async () =>
        (asked += 1) === 1
          ? { is: "unknown", why: "429" }
          : { is: "ok", value: { url: gateway.url.origin, headers: {} } },
      exec: async (_ref, { argv }) => {
        commands.push(argv.slice(0, 3).join(" "))
        return { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
      },
      snapshot: async (ref) => {
        if (kind === "pause") await inner.pause(ref)
        if (kind === "stop") await inner.terminate(ref)
        made += 1
        return { is: "ok", value: { id: made === 1 ? "the-base" : `base-${made}` } }
      },
    }
    const { keeper } = await keeperOn(store, provider)
    ends.push(keeper.stop)
    const bases = createBaseSnapshots({
      store,
      keeper,
      // The other calls of the hub are not made for a base snapshot.
      hub: hub as unknown as HubPort,
      provider,
      runtimeKey: "v1",
      added: async () => {},
      clock: systemClock,
      log: silentLog,
    })
    expect(await bases.current()).toBeUndefined()
    expect(await bases.make()).toEqual({ id: "the-base", isNew: true })
    expect(commands).toEqual(["sandpiper hook pre-snapshot", expect.stringContaining("/bin/sh -c")])
    expect(await Array.fromAsync(provider.list({ deployment }))).toEqual([])
    expect(await store.page(undefined, 10)).toEqual([])
    expect(await bases.make()).toEqual({ id: "the-base", isNew: false })
    expect(await bases.current()).toBe("the-base")
    expect(await bases.make(true)).toEqual({ id: "base-2", isNew: true })
    expect(await bases.current()).toBe("base-2")
    expect(await Array.fromAsync(provider.list({ deployment }))).toEqual([])
  })

test("the record of a failed base snapshot stays while its volume cannot be removed", async () => {
  const store = openSqliteStore(":memory:")
  let isAway = true
  const provider: SandboxProvider = {
    ...memoryProvider({ snapshot: "copy", exec: true, volumes: true }),
    removeVolume: async () =>
      isAway ? { is: "unknown", why: "no answer" } : { is: "ok", value: undefined },
  }
  const { keeper } = await keeperOn(store, provider)
  ends.push(keeper.stop)
  const bases = createBaseSnapshots({
    store,
    keeper,
    hub: { ...hub, gatewayKey: async () => undefined } as unknown as HubPort,
    provider,
    runtimeKey: "v1",
    added: async () => {},
    clock: systemClock,
    log: silentLog,
  })
  const rows = () => store.page(undefined, 10)
  await bases.make().catch(() => {})
  expect(await rows()).toMatchObject([{ kind: "base", life: { phase: "ended" } }])
  isAway = false
  await bases.make().catch(() => {})
  expect(await rows()).toHaveLength(1)
})

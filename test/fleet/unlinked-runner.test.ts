/** A runner whose connection is lost: it is let alone while it answers at its gateway, and started again if it does not. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { StoredSession } from "../../src/fleet/store/ports.ts"
import { createManualClock } from "../kit/clock.ts"
import { keeperOn, memoryProvider } from "./kit/fleet.ts"

const MINUTE = 60_000
const limit = () => AbortSignal.timeout(60_000)
const settled = ({ life }: StoredSession) => !life.pending

describe("a sandbox whose runner has lost its connection", () => {
  let asked: string[] = []
  let gateway: ReturnType<typeof Bun.serve>
  beforeEach(() => {
    asked = []
    gateway = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url, headers }) => {
        asked.push(`${new URL(url).pathname} ${headers.get("x-preview")}`)
        return new Response("ok")
      },
    })
  })
  afterEach(() => gateway.stop(true))

  /** A session whose runner was connected and is not any more, in a sandbox that runs. */
  const newScene = async (addressOf?: SandboxProvider["address"]) => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(Date.now())
    const commands: string[] = []
    const provider: SandboxProvider = {
      ...memoryProvider({ startsRunner: true, exec: true, supportsPause: false }),
      exec: async (_ref, { argv }) => {
        commands.push(argv.join(" "))
        return { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } }
      },
      address:
        addressOf ??
        (async () => ({
          is: "ok",
          value: { url: `http://127.0.0.1:${gateway.port}/`, headers: { "x-preview": "key" } },
        })),
    }
    const { keeper, notes } = await keeperOn(store, provider, "r1", { clock })
    await keeper.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} })
    await keeper.want("s", "running")
    await keeper.waitFor("s", ({ life }) => life.phase === "booting", limit())
    const runner = (linked: boolean) => keeper.runner("s", { generation: 1, linked, busy: linked })
    const lose = async () => {
      await runner(true)
      await runner(false)
    }
    await lose()
    return {
      commands,
      notes,
      runner,
      lose,
      stop: keeper.stop,
      life: async () => (await store.find("s"))?.life,
      /** Time passes, and everything that is due then is done. */
      pass: async (ms: number) => {
        clock.advance(ms)
        await keeper.tick()
        await keeper.waitFor("s", settled, limit())
      },
    }
  }

  test("a runner that answers at its gateway is not started again, and goes on when it is connected", async () => {
    const scene = await newScene()
    for (let minute = 0; minute < 9; minute += 1) await scene.pass(MINUTE)
    expect(asked.length).toBeGreaterThan(5)
    expect(new Set(asked)).toEqual(new Set(["/health key"]))
    expect(scene.commands).toEqual([])
    await scene.runner(true)
    expect(await scene.life()).toMatchObject({ phase: "running", ref: "sp-s-1", failures: 0 })
    // The ten minutes begin with each loss of the connection.
    await scene.runner(false)
    for (let minute = 0; minute < 9; minute += 1) await scene.pass(MINUTE)
    expect(scene.commands).toEqual([])
    await scene.stop()
  })

  test("a runner that answers but does not connect for ten minutes is started again", async () => {
    const scene = await newScene()
    for (let minute = 0; minute < 10; minute += 1) await scene.pass(MINUTE)
    expect(scene.commands).toEqual([])
    await scene.pass(MINUTE)
    expect(scene.commands).toEqual(["/start.sh"])
    await scene.stop()
  })

  test("a runner that does not answer is started again after a minute, in the same sandbox", async () => {
    const scene = await newScene()
    await gateway.stop(true)
    await scene.pass(MINUTE)
    expect(scene.commands).toEqual([])
    await scene.pass(5000)
    expect(scene.commands).toEqual(["/start.sh"])
    await scene.runner(true)
    expect(await scene.life()).toMatchObject({ phase: "running", ref: "sp-s-1" })
    expect(scene.notes).toEqual([])
    await scene.stop()
  })

  test("a runner that cannot be asked is not taken for dead", async () => {
    const scene = await newScene(async () => ({ is: "unknown", why: "no answer" }))
    for (let minute = 0; minute < 9; minute += 1) await scene.pass(MINUTE)
    expect(scene.commands).toEqual([])
    await scene.stop()
  })

  test("a closed port of a sandbox is no answer", async () => {
    const scene = await newScene(async () => ({ is: "refused", why: "the port is not open" }))
    await scene.pass(MINUTE)
    await scene.pass(5000)
    expect(scene.commands).toEqual(["/start.sh"])
    await scene.stop()
  })
})

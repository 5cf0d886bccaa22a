/** The bridge with Debian's Redis, read by redis-cli as another program would. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { bridgedStore } from "../../src/fleet/bridge/bridged-store.ts"
import { createRedisBridge } from "../../src/fleet/bridge/redis-bridge.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "../fleet/kit/fleet.ts"
import { freePort } from "../kit/free-port.ts"
import { listening, start, until } from "./kit.ts"

const PASSWORD = "a-password-of-redis"
const port = freePort()
let redis: ReturnType<typeof start>

const startRedis = async () => {
  const settings = ["--save", "", "--appendonly", "no", "--requirepass", PASSWORD]
  redis = start(["redis-server", "--port", String(port), "--bind", "127.0.0.1", ...settings])
  await listening(port)
}
const cli = (...args: readonly string[]): string =>
  Bun.spawnSync(["redis-cli", "-p", String(port), ...args], {
    env: { ...process.env, REDISCLI_AUTH: PASSWORD },
  })
    .stdout.toString()
    .trim()

beforeAll(startRedis)
afterAll(() => redis.stop())

test("another program finds the sandbox of a session, gets its changes, and finds it again after Redis was killed", async () => {
  const store = openSqliteStore(":memory:")
  const provider: SandboxProvider = {
    ...memoryProvider(),
    address: async (ref) => ({ is: "ok", value: { url: `http://127.0.0.1/${ref}`, headers: {} } }),
  }
  const bridge = createRedisBridge({
    url: `redis://:${PASSWORD}@127.0.0.1:${port}`,
    store,
    provider,
    replica: "r1",
    clock: systemClock,
    log: silentLog,
  })
  const bridged = bridgedStore(store, bridge)
  const { keeper } = await keeperOn(bridged, provider)
  const listener = Bun.spawn(["redis-cli", "-p", String(port), "SUBSCRIBE", "sandbox:s"], {
    env: { ...process.env, REDISCLI_AUTH: PASSWORD },
    stdout: "pipe",
  })
  let heard = ""
  const listen = async () => {
    for await (const chunk of listener.stdout) heard += new TextDecoder().decode(chunk)
  }
  const listened = listen()
  await until(() => heard.includes("subscribe"), "the other program listens")
  await keeper.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} })
  await keeper.want("s", "running")
  const found = () => cli("GET", "sandbox:s")
  await until(() => found().includes("http://127.0.0.1/sp-s-1"), "the entry")
  expect(JSON.parse(found())).toEqual({
    providerSandboxId: "sp-s-1",
    provider: "noop",
    containerUrl: "http://127.0.0.1/sp-s-1/t/preview/",
    isNewProvision: false,
  })
  const seconds = Number(cli("TTL", "sandbox:s"))
  expect(seconds).toBeGreaterThan(86_000)
  expect(seconds).toBeLessThanOrEqual(86_400)
  await until(() => heard.includes("sp-s-1"), "the message")

  await redis.stop()
  await listened
  await keeper.want("s", "asleep")
  await keeper.waitFor("s", ({ life }) => life.phase === "paused", AbortSignal.timeout(60_000))
  await startRedis()
  await until(() => found().includes('"containerUrl":null'), "the entry after the restart")
  await keeper.want("s", "ended")
  await until(() => found() === "", "the deletion")
  await keeper.stop()
  await bridged.close()
})

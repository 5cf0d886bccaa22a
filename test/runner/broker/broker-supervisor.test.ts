/** The broker as a process: started, killed and adopted by the next runner, with real processes and sockets. */
import { afterEach, expect, test } from "bun:test"
import { existsSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { UPSTREAMS_PATH } from "../../../src/runner/broker/broker-process.ts"
import { createBrokerSupervisor } from "../../../src/runner/broker/broker-supervisor.ts"
import { orderKeyOf, sealOrder } from "../../../src/runner/broker/sealed-orders.ts"
import { type Clock, systemClock } from "../../../src/lib/clock.ts"
import { createProcesses } from "../../../src/runner/host/processes.ts"
import { recordingLog } from "../../kit/log.ts"
import { runnerFromSource } from "../../kit/runner.ts"
import { untilTrue } from "../../kit/until-true.ts"

const stops: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

const startProvider = () => {
  const keys: (string | null)[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      keys.push(request.headers.get("authorization"))
      return Response.json({ ok: true })
    },
  })
  stops.push(() => server.stop(true))
  return { keys, baseUrl: server.url.origin }
}

const SECRET = "the token of the runner"

/** `below`: folders between the temporary directory and the state directory. */
const setUp = async (below = "") => {
  const root = await mkdtemp(join(tmpdir(), "broker-"))
  stops.push(() => rm(root, { recursive: true, force: true }))
  const stateDir = join(root, below)
  await mkdir(join(stateDir, "session"), { recursive: true })
  let fact: string | undefined
  const lines: string[] = []
  const create = (
    bootId = "boot-1",
    version = "1",
    secret: string | undefined = SECRET,
    clock: Clock = systemClock,
  ) =>
    createBrokerSupervisor({
      self: runnerFromSource,
      stateDir,
      bootId,
      version,
      secret,
      memory: { read: () => fact, write: (text) => void (fact = text) },
      environment: { PATH: process.env["PATH"] },
      leaseSeconds: 600,
      clock,
      log: recordingLog(lines, []),
    })
  /** The folder of the control socket. */
  const folder = () => dirname((JSON.parse(fact ?? "") as { readonly socket: string }).socket)
  return { stateDir, create, lines, folder }
}
/** The control socket of such a state directory cannot be in it. */
const LONG = "a-long-path/".repeat(10)

type Supervisor = ReturnType<typeof createBrokerSupervisor>

const call = async ({ address }: Supervisor, provider = "p"): Promise<number> => {
  const response = await fetch(`${address.origin}/${provider}/chat/completions`, {
    method: "POST",
    body: "{}",
    headers: { authorization: `Bearer ${address.token}` },
  }).catch(() => undefined)
  await response?.text()
  return response?.status ?? 0
}

const untilStatus = (supervisor: Supervisor, status: number, provider?: string) =>
  untilTrue(
    async () => (await call(supervisor, provider)) === status,
    `response ${status} of the broker`,
  )

/** A broker with the provider's key. */
const startWithKey = async (
  create: () => Supervisor,
  { baseUrl }: { readonly baseUrl: string },
): Promise<Supervisor> => {
  const broker = create()
  stops.push(broker.stop)
  void broker.setUpstreams({ p: { baseUrl, auth: "bearer", key: "k-1" } })
  broker.start()
  await untilStatus(broker, 200)
  return broker
}

const pidOn = (port: number): number => createProcesses(systemClock).listener(port)?.pid ?? 0

test("the broker process adds the key, and its control socket is closed to other users", async () => {
  const { create, stateDir } = await setUp()
  const provider = startProvider()
  await startWithKey(create, provider)
  expect(provider.keys).toEqual(["Bearer k-1"])
  expect(statSync(join(stateDir, "session/broker.sock")).mode & 0o777).toBe(0o600)
})

test("a changed key is used from the next call on, and a removed provider is forgotten", async () => {
  const { create } = await setUp()
  const provider = startProvider()
  const broker = await startWithKey(create, provider)
  await broker.setUpstreams({ q: { baseUrl: provider.baseUrl, auth: "bearer", key: "k-2" } })
  expect(await call(broker, "q")).toBe(200)
  expect(await call(broker)).toBe(404)
  expect(provider.keys).toEqual(["Bearer k-1", "Bearer k-2"])
})

test("a killed broker is started again on the same port with the same keys", async () => {
  const { create, lines } = await setUp()
  const provider = startProvider()
  const broker = await startWithKey(create, provider)
  const pid = pidOn(broker.port)
  process.kill(pid, "SIGKILL")
  await untilStatus(broker, 0)
  await untilStatus(broker, 200)
  expect(pidOn(broker.port)).not.toBe(pid)
  expect(lines.some((line) => line.includes("broker.ended"))).toBe(true)
})

test("the next runner of the same boot adopts the broker process with its port and token", async () => {
  const { create } = await setUp()
  const provider = startProvider()
  const first = await startWithKey(create, provider)
  const pid = pidOn(first.port)
  // A killed runner never calls `stop`: the second one comes while the process still runs.
  const second = create()
  stops.push(second.stop)
  expect(second.address).toEqual(first.address)
  void second.setUpstreams({ q: { baseUrl: provider.baseUrl, auth: "bearer", key: "k-2" } })
  second.start()
  await untilStatus(second, 200, "q")
  expect(pidOn(second.port)).toBe(pid)
})

test("the next runner leaves the keys of an adopted broker in use until it has its own configuration", async () => {
  const waits: number[] = []
  const clock: Clock = {
    ...systemClock,
    after: (ms, run) => {
      waits.push(ms)
      return systemClock.after(ms, run)
    },
  }
  const { create } = await setUp()
  const provider = startProvider()
  const first = await startWithKey(create, provider)
  const pid = pidOn(first.port)
  const second = create("boot-1", "1", SECRET, clock)
  stops.push(second.stop)
  second.start()
  // It waits for the next renewal after it has reached the broker.
  await untilTrue(() => waits.includes(10_000), "adoption of the broker")
  expect(pidOn(second.port)).toBe(pid)
  expect(await call(second)).toBe(200)
  await second.setUpstreams({})
  expect(await call(second)).toBe(404)
})

test("a runner with another token replaces the broker of the earlier one", async () => {
  const { create } = await setUp()
  const provider = startProvider()
  const first = await startWithKey(create, provider)
  const pid = pidOn(first.port)
  const second = create("boot-1", "1", "another token of the runner")
  stops.push(second.stop)
  void second.setUpstreams({ q: { baseUrl: provider.baseUrl, auth: "bearer", key: "k-2" } })
  second.start()
  await untilStatus(second, 200, "q")
  expect(pidOn(second.port)).not.toBe(pid)
})

/** Puts a listener in the place of the control socket. It passes on what it has recorded, while `passes` is true. */
const listenBetween = (stateDir: string) => {
  const socket = join(stateDir, "session/broker.sock")
  const behind = join(stateDir, "behind.sock")
  renameSync(socket, behind)
  const between = { orders: [] as string[], passes: true, socket, behind }
  const server = Bun.serve({
    unix: socket,
    fetch: async (request) => {
      const body = await request.text()
      if (new URL(request.url).pathname === UPSTREAMS_PATH) between.orders.push(body)
      if (!between.passes) return Response.json({ version: "1" })
      const passed = fetch(request.url, { unix: behind, method: "PUT", body, proxy: "" })
      return passed.catch(() => new Response("", { status: 502 }))
    },
  })
  stops.push(async () => {
    await server.stop(true)
    // The runner stops its broker over the socket.
    if (!between.passes) renameSync(behind, socket)
  })
  return between
}
const repeat = async (socket: string, body: string): Promise<number> => {
  const url = `http://broker${UPSTREAMS_PATH}`
  return (await fetch(url, { unix: socket, method: "PUT", body, proxy: "" })).status
}

test("an order that was recorded on its way is refused by the broker, and by the next one", async () => {
  const { create, stateDir } = await setUp()
  const provider = startProvider()
  const broker = await startWithKey(create, provider)
  const between = listenBetween(stateDir)
  const give = (key: string) =>
    broker.setUpstreams({ p: { baseUrl: provider.baseUrl, auth: "bearer", key } })
  await give("k-old")
  const [recorded = ""] = between.orders
  expect(recorded).not.toBe("")
  await give("k-new")
  expect(await repeat(between.behind, recorded)).toBe(409)
  expect(await call(broker)).toBe(200)
  expect(provider.keys.at(-1)).toBe("Bearer k-new")
  // Another runner's token does not make an order either.
  const forged = orderKeyOf("another token of the runner", broker.address.token)
  const order = { number: Date.now() + 1000, models: {}, services: {} }
  expect(await repeat(between.behind, sealOrder(forged, order))).toBe(400)

  // The next broker makes its socket at the old path.
  const pid = pidOn(broker.port)
  process.kill(pid, "SIGKILL")
  await untilTrue(() => ![0, pid].includes(pidOn(broker.port)), "the next broker")
  await untilStatus(broker, 200)
  expect(await repeat(between.socket, recorded)).toBe(409)
})

test("a listener in the place of the control socket reads no key, and the runner does not take it for the broker", async () => {
  const { create, stateDir, lines } = await setUp()
  const provider = startProvider()
  const broker = await startWithKey(create, provider)
  const between = listenBetween(stateDir)
  between.passes = false
  void broker.setUpstreams({ p: { baseUrl: provider.baseUrl, auth: "bearer", key: "k-new" } })
  await untilTrue(() => between.orders.length > 0, "an order")
  expect(between.orders.join("")).not.toContain("k-new")
  await untilTrue(() => lines.some((line) => line.includes("broker.ended")), "a second broker")
})

test("a stopped broker leaves no process and no socket", async () => {
  const { create, stateDir } = await setUp()
  const broker = create()
  broker.start()
  await untilStatus(broker, 503)
  const pid = pidOn(broker.port)
  await broker.stop()
  expect(() => process.kill(pid, 0)).toThrow()
  expect(await Bun.file(join(stateDir, "session/broker.sock")).exists()).toBe(false)
})

test("another boot gets another token", async () => {
  const { create } = await setUp()
  expect(create("boot-2").address.token).not.toBe(create("boot-1").address.token)
})

test("with a long state directory a stopped broker leaves no folder, and the next runner of the boot starts one again", async () => {
  const { create, folder } = await setUp(LONG)
  const first = create()
  first.start()
  await untilStatus(first, 503)
  const before = folder()
  expect(existsSync(before)).toBe(true)
  await first.stop()
  expect(existsSync(before)).toBe(false)
  const second = create()
  second.start()
  await untilStatus(second, 503)
  expect(second.address).toEqual(first.address)
  await second.stop()
  expect(existsSync(folder())).toBe(false)
})

test("with a long state directory the next runner of the same boot keeps the folder and adopts the broker", async () => {
  const { create, folder } = await setUp(LONG)
  const provider = startProvider()
  const first = await startWithKey(create, provider)
  const [before, pid] = [folder(), pidOn(first.port)]
  const second = create()
  stops.push(second.stop)
  void second.setUpstreams({ q: { baseUrl: provider.baseUrl, auth: "bearer", key: "k-2" } })
  second.start()
  await untilStatus(second, 200, "q")
  expect([folder(), pidOn(second.port)]).toEqual([before, pid])
})

test("the folder of an earlier boot is removed when the next boot has one", async () => {
  const { create, folder } = await setUp(LONG)
  create("boot-1")
  const before = folder()
  // What is left of a broker that was killed with its machine.
  await Bun.write(join(before, "broker.sock"), "")
  const second = create("boot-2")
  stops.push(second.stop)
  expect(folder()).not.toBe(before)
  expect([existsSync(before), existsSync(folder())]).toEqual([false, true])
})

test("the folder of a broker that still listens is not removed, because the state may be a copy", async () => {
  const { create, folder } = await setUp(LONG)
  const first = create("boot-1")
  stops.push(first.stop)
  first.start()
  await untilStatus(first, 503)
  const before = folder()
  const second = create("boot-2")
  stops.push(second.stop)
  expect(folder()).not.toBe(before)
  await untilStatus(first, 503)
  expect(existsSync(join(before, "broker.sock"))).toBe(true)
})

test("a folder that something else has put in the place of the removed one is neither used nor deleted", async () => {
  const { create, folder, stateDir } = await setUp(LONG)
  const first = create()
  await first.stop()
  const before = folder()
  rmSync(before, { recursive: true, force: true })
  symlinkSync(stateDir, before)
  stops.push(() => rm(before))
  await Bun.write(join(stateDir, "broker.sock"), "of another program")
  const second = create()
  expect(folder()).not.toBe(before)
  await second.stop()
  expect(existsSync(join(stateDir, "broker.sock"))).toBe(true)
})

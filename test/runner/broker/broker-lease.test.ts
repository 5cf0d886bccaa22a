/** How long a broker waits for the next runner, on a fake clock that can jump as that of a suspended machine does. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serveBroker, UPSTREAMS_PATH } from "../../../src/runner/broker/broker-process.ts"
import { orderKeyOf, sealOrder } from "../../../src/runner/broker/sealed-orders.ts"
import type { Clock } from "../../../src/lib/clock.ts"
import { freePort } from "../../kit/free-port.ts"
import { silentLog } from "../../kit/log.ts"

const KEY = orderKeyOf("the token of the runner", "boot")
let folder = ""
let ended: Promise<number>
let code: number | undefined
let now = 0
let look = () => {}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-"))
  code = undefined
  now = 1_000_000
})
afterEach(async () => {
  if (code === undefined)
    await fetch("http://broker/stop", { unix: join(folder, "s"), method: "PUT", proxy: "" })
  await ended
  rmSync(folder, { recursive: true, force: true })
})

const clock: Clock = {
  now: () => now,
  after: (_ms, run) => {
    look = run
    return () => {}
  },
}
const start = (leaseSeconds: number) => {
  const order = {
    token: "the token of the agent",
    port: freePort(),
    socket: join(folder, "s"),
    version: "1",
    orderKey: KEY,
    lastOrder: 0,
    leaseSeconds,
  }
  ended = serveBroker(order, { clock, log: silentLog }).then((result) => (code = result))
}
const looks = (count: number, pause = 5000) => {
  for (let number = 0; number < count; number += 1) {
    now += pause
    look()
  }
}
/** The end of the broker comes before the answer: its socket is removed at once. */
const runs = async (): Promise<boolean> => {
  await Promise.resolve()
  return existsSync(join(folder, "s"))
}
const orderOfRunner = async () => {
  const response = await fetch(`http://broker${UPSTREAMS_PATH}`, {
    unix: join(folder, "s"),
    method: "PUT",
    body: sealOrder(KEY, { number: now, models: {}, services: {} }),
    proxy: "",
  })
  expect(response.status).toBe(200)
}

test("a broker waits ten minutes for the next runner and then ends", async () => {
  start(600)
  looks(119)
  expect(await runs()).toBe(true)
  looks(1)
  expect(await ended).toBe(0)
  expect(await runs()).toBe(false)
})

test("an order of a runner begins the time of a broker anew", async () => {
  start(600)
  looks(119)
  await orderOfRunner()
  looks(119)
  expect(await runs()).toBe(true)
  looks(1)
  expect(await ended).toBe(0)
})

test("a broker on a machine that was suspended for hours waits for its runner, which wakes up at the same moment", async () => {
  start(600)
  looks(1)
  looks(1, 8 * 3_600_000)
  expect(await runs()).toBe(true)
  await orderOfRunner()
  looks(100)
  expect(await runs()).toBe(true)
})

test("without a time a broker waits for ever", async () => {
  start(0)
  looks(100_000)
  expect(await runs()).toBe(true)
})

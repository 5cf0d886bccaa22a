/** The gateway's port of a place: the default one for one `up`, the last one for the next `up` of the place. */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chooseGatewayPort } from "../../src/cli/place/gateway-port.ts"
import { readInvocation, type Settings } from "../../src/settings/settings.ts"
import { freePort } from "../kit/free-port.ts"

const folder = mkdtempSync(join(tmpdir(), "gateway-port-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** As if `port` were the default. */
const settingsWith = (port: number): Settings => {
  const invocation = readInvocation(["up"], { HOME: folder }, folder)
  if (invocation.want !== "command") throw new Error("unreachable")
  return { ...invocation.settings, gatewayPort: port }
}
const choose = (port: number, base: string, file = "none") =>
  chooseGatewayPort(settingsWith(port), join(folder, base), join(folder, file))

test("two ups that start together do not both get the default port, and a third gets it after the first has ended", async () => {
  const port = freePort()
  const [first, second] = await Promise.all([choose(port, "shared"), choose(port, "shared")])
  expect([first.port, second.port].toSorted((a, b) => a - b)).toEqual([0, port])
  for (const { release } of [first, second]) release()
  const third = await choose(port, "shared")
  expect(third.port).toBe(port)
  third.release()
})

test("an up gets any port while another program listens on the default one", async () => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: freePort(), fetch: () => new Response() })
  const chosen = await choose(server.port ?? 0, "taken")
  await server.stop(true)
  expect(chosen.port).toBe(0)
})

test("the next up of a place gets the port of the last one, and another port while that one is taken", async () => {
  const last = freePort()
  writeFileSync(join(folder, "last"), `${last}\n`)
  const first = await choose(freePort(), "last-port", "last")
  expect(first.port).toBe(last)
  first.release()
  const server = Bun.serve({ hostname: "127.0.0.1", port: last, fetch: () => new Response() })
  const chosen = await choose(freePort(), "last-port", "last")
  await server.stop(true)
  expect(chosen.port).toBe(0)
})

test("two ups whose places had the same last port do not both get it when they start together", async () => {
  const last = freePort()
  for (const file of ["one", "other"]) writeFileSync(join(folder, file), `${last}\n`)
  const [first, second] = await Promise.all(
    ["one", "other"].map((file) => choose(freePort(), "same-last", file)),
  )
  expect(new Set([first?.port, second?.port])).toEqual(new Set([0, last]))
  first?.release()
  second?.release()
})

test("a port that the user gives is taken as it is", async () => {
  const settings = { ...settingsWith(4321), given: new Set(["gatewayPort"]) }
  const chosen = await chooseGatewayPort(settings, join(folder, "given"), join(folder, "none"))
  expect(chosen.port).toBe(4321)
})

/** The demo model's port: the same at every start, another one when it is in use. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startDemoModel } from "../../src/demo/demo.ts"
import { startOnStablePort } from "../../src/demo/stable-port.ts"

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "stable-port-"))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const start = (file: string) => startOnStablePort(file, (port) => startDemoModel({ port }))

test("a second start uses the port of the first one", async () => {
  const file = join(folder, "state/port")
  const first = await start(file)
  await first.stop()
  const second = await start(file)
  expect(second.url).toBe(first.url)
  await second.stop()
})

test("a port in use is replaced by a free one, which is stored", async () => {
  const file = join(folder, "taken")
  const first = await start(file)
  const second = await start(file)
  expect(second.port).not.toBe(first.port)
  expect(Number(await readFile(file, "utf8"))).toBe(second.port)
  await first.stop()
  await second.stop()
})

test("a file with an invalid port is replaced", async () => {
  const file = join(folder, "nonsense")
  await writeFile(file, "seventy thousand")
  const model = await start(file)
  expect(Number(await readFile(file, "utf8"))).toBe(model.port)
  await model.stop()
})

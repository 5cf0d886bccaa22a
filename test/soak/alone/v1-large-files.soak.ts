/** A file of 1 GB goes up and down: the memory of the gateway's process and of the `/v1` server stays where it was. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import { makeControlToken } from "../../runner/gateway/kit.ts"

/** Of the runner, and of the server that it starts while `/v1` is used. */
const MOST_GROWTH_MB = [30, 30]
const place = z.object({ url: z.string(), root: z.string(), serverPid: z.int() })

let child: Bun.Subprocess<"pipe", "pipe", "inherit">
let stage: z.output<typeof place>
let local: string

beforeAll(async () => {
  local = await mkdtemp(join(tmpdir(), "large-"))
  await Bun.$`head -c 1G /dev/urandom > ${join(local, "source")}`
  const program = join(import.meta.dir, "../../runner/sandbox/v1/stage-process.ts")
  child = Bun.spawn([process.execPath, program], { stdin: "pipe", stdout: "pipe" })
  const { value } = await child.stdout.getReader().read()
  stage = place.parse(JSON.parse(new TextDecoder().decode(value)))
}, 120_000)
afterAll(async () => {
  await child.stdin.end()
  await child.exited
  await rm(local, { recursive: true, force: true })
})

const memoryMb = (pid: number, field: "VmRSS" | "VmHWM"): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) /
  1024

const curl = (...args: string[]) =>
  Bun.$`curl -sSf -H ${`authorization: Bearer ${makeControlToken()}`} ${args}`.quiet()
const digestOf = async (path: string): Promise<string> =>
  (await Bun.$`sha256sum < ${path}`.text()).slice(0, 64)

test("1 GB up and down is the same file, and the memory of the runner and of its server grows by less than 30 MB", async () => {
  const address = `${stage.url}/v1/fs/file?path=large`
  const small = join(local, "small")
  await Bun.$`head -c 64M ${join(local, "source")} > ${small}`
  // The first transfer loads code and fills the buffers of the sockets.
  for (const _ of [1, 2]) {
    await curl("-T", small, address)
    await curl("-o", join(local, "back"), address)
  }
  const pids = [child.pid, stage.serverPid]
  const before = pids.map((pid) => memoryMb(pid, "VmRSS"))
  for (const pid of pids) await Bun.write(`/proc/${pid}/clear_refs`, "5")
  const startedAt = performance.now()
  await curl("-T", join(local, "source"), address)
  const upAt = performance.now()
  await curl("-o", join(local, "back"), address)
  const downAt = performance.now()
  const growth = pids.map((pid, index) => memoryMb(pid, "VmHWM") - (before[index] ?? 0))
  process.stderr.write(
    `up ${Math.round(upAt - startedAt)} ms, down ${Math.round(downAt - upAt)} ms, growth of the peak: ${growth.map((mb) => `${mb.toFixed(1)} MB`).join(", ")}\n`,
  )
  expect(await digestOf(join(local, "back"))).toBe(await digestOf(join(local, "source")))
  for (const [index, mb] of growth.entries()) {
    expect(mb).toBeLessThan(MOST_GROWTH_MB[index] ?? 0)
  }
}, 300_000)

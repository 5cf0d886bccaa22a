/**
 * Isolated sandboxes with a network policy whose `serve` does not come back: a running one is asked to end, a frozen one ends without
 * running once more, and of both the disk stays for the next `serve`.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { probeMachine } from "../../src/fleet/providers/local-machine.ts"
import { endOrphanedBoxes } from "../../src/fleet/providers/local-orphans.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { readProcess } from "../../src/lib/process-identity.ts"
import { runnerFromSource } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"
import { limit, specOf } from "./isolated-kit.ts"

/** Says that it was asked to end, as a runner stores what it knows. */
const program = `#!/bin/bash
echo begun >>/workspace/life
trap 'echo asked >>/workspace/life; exit 0' TERM
while :; do sleep 0.1; done
`
let root = ""
let provider: SandboxProvider

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "isolated-"))
  const self = join(root, "runner")
  writeFileSync(self, program)
  chmodSync(self, 0o755)
  const { isolation, findings } = await probeMachine(join(root, "fleet", "probe"))
  if (!isolation) throw new Error(`this machine has no isolation: ${JSON.stringify(findings)}`)
  provider = createLocalProvider({
    root: join(root, "fleet"),
    self: [self],
    clock: systemClock,
    isolated: {
      isolation,
      programs: [self],
      variables: {},
      hostPorts: () => [],
      egress: {
        argv: [...runnerFromSource, "egress-proxy"],
        environment: { PATH: process.env["PATH"] ?? "" },
        via: undefined,
        hosts: () => [],
      },
    },
  })
})
afterAll(async () => {
  for await (const { ref } of provider.list({ deployment: "d" })) await provider.terminate(ref)
  rmSync(root, { recursive: true, force: true })
})

const start = async (session: string): Promise<string> => {
  const made = await provider.create(specOf(session), limit())
  if (made.is !== "ok") throw new Error(`not created: ${JSON.stringify(made)}`)
  return made.value.ref
}
const processesOf = (ref: string): readonly number[] => {
  const record = JSON.parse(
    readFileSync(join(root, "fleet", "boxes", ref, "box.json"), "utf8"),
  ) as { process: { pid: number }; helpers: readonly { pid: number }[] }
  expect(record.helpers).toHaveLength(1)
  return [record.process.pid, ...record.helpers.map(({ pid }) => pid)]
}
const isRunning = (pid: number): boolean => readProcess(pid)?.isZombie === false
const life = async (ref: string): Promise<string> => {
  const result = await provider.exec(ref, { argv: ["cat", "life"] }, limit())
  return result.is === "ok" ? result.value.stdout : JSON.stringify(result)
}
const hasBegun = (ref: string, times: number) =>
  untilTrue(
    async () => (await life(ref)).split("begun").length - 1 === times,
    "begin of the program",
  )

test("orphaned sandboxes end with their helpers, and a resume goes on with the disk of each", async () => {
  const [running, frozen] = [await start("a"), await start("b")]
  await hasBegun(running, 1)
  await hasBegun(frozen, 1)
  await provider.pause(frozen)
  const processes = [...processesOf(running), ...processesOf(frozen)]
  expect(processes.filter(isRunning)).toEqual(processes)
  await endOrphanedBoxes(join(root, "fleet"), systemClock)
  expect(processes.filter(isRunning)).toEqual([])
  for (const ref of [running, frozen]) {
    expect(await provider.look(ref)).toMatchObject({ is: "ok", value: { state: "stopped" } })
    expect(await provider.resume(ref, specOf("a"))).toMatchObject({ is: "ok" })
    await hasBegun(ref, 2)
  }
  expect(await life(running)).toBe("begun\nasked\nbegun\n")
  expect(await life(frozen)).toBe("begun\nbegun\n")
})

/** Which zombies are reaped and which are left to Bun. The whole runner as PID 1 is in test/soak/boot-pid1.soak.ts. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { leftOver } from "../../../src/runner/host/reaper.ts"
import { requireRoot } from "../../kit/boot.ts"
import { repositoryRoot } from "../../kit/runner.ts"

const zombie = (pid: number, startTime = 100) => ({ pid, startTime, parent: 1, isZombie: true })

test("a zombie in two consecutive scans is an orphan", () => {
  expect(leftOver([zombie(5), zombie(6)], [zombie(6), zombie(7)])).toEqual([zombie(6)])
})

test("a zombie in only one scan is not reaped, because Bun may be reading its exit code", () => {
  expect(leftOver([], [zombie(5)])).toEqual([])
})

test("a zombie with a reused pid counts as a new one", () => {
  expect(leftOver([zombie(5, 100)], [zombie(5, 200)])).toEqual([])
})

test("PID 1 gets the exit codes of its own 200 children while it reaps orphans", async () => {
  requireRoot()
  const namespace = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
  const program = join(repositoryRoot, "test/kit/reaping.ts")
  const child = Bun.spawn([...namespace, process.execPath, program], { stderr: "inherit" })
  const report = JSON.parse(await new Response(child.stdout).text())
  expect(await child.exited).toBe(0)
  expect(report).toMatchObject({ pid: 1, wrong: [], children: 200, zombies: 0 })
  expect(report.reaped).toBeGreaterThanOrEqual(200)
})

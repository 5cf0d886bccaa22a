/** Which zombies are nobody's, and that nobody else's are taken; the whole runner as PID 1 is in test/soak/boot-pid1.soak.ts. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { leftOver } from "../../../src/runner/host/reaper.ts"
import { requireRoot } from "../../kit/boot.ts"
import { repositoryRoot } from "../../kit/runner.ts"

const zombie = (pid: number, startTime = 100) => ({ pid, startTime, parent: 1, isZombie: true })

test("a zombie is left over when two scans in a row have seen it", () => {
  expect(leftOver([zombie(5), zombie(6)], [zombie(6), zombie(7)])).toEqual([zombie(6)])
})

test("at first sight none is: it may be a child whose exit code is being fetched", () => {
  expect(leftOver([], [zombie(5)])).toEqual([])
})

test("a pid that is used again is another process", () => {
  expect(leftOver([zombie(5, 100)], [zombie(5, 200)])).toEqual([])
})

test("the first process gets every exit code of its own 200 children, whatever it reaps meanwhile", async () => {
  requireRoot()
  const namespace = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
  const program = join(repositoryRoot, "test/kit/reaping.ts")
  const child = Bun.spawn([...namespace, process.execPath, program], { stderr: "inherit" })
  const report = JSON.parse(await new Response(child.stdout).text())
  expect(await child.exited).toBe(0)
  expect(report).toMatchObject({ pid: 1, wrong: [], children: 200, zombies: 0 })
  expect(report.reaped).toBeGreaterThanOrEqual(200)
}, 30_000)

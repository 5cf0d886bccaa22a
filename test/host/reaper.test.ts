/** Which zombies are nobody's; that they are really reaped is shown by test/e2e/boot-pid1.test.ts. */
import { expect, test } from "bun:test"
import { leftOver } from "../../src/host/reaper.ts"

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

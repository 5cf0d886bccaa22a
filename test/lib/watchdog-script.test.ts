/**
 * The script of the watchdog in a real shell on a fake clock: its `sleep` is a program of the test that moves the clock, and
 * sometimes by more than it was asked for. The rule in TypeScript says when the script must end.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import * as fc from "fast-check"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isOver, present, stillAway } from "../../src/lib/absence-state.ts"
import { timesOf, watchdogScript, type WatchdogTimes } from "../../src/lib/watchdog-script.ts"

let folder = ""
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "watchdog-"))
  const sleep = join(folder, "sleep")
  // Each line of `late` is what one call takes longer.
  writeFileSync(
    sleep,
    `#!/bin/sh
read -r up _ <${folder}/uptime
late=0
read -r late <${folder}/late && { tail -n +2 ${folder}/late >${folder}/rest; mv ${folder}/rest ${folder}/late; }
echo "$((\${up%%.*} + $1 + late)).37 0.00" >${folder}/uptime
echo "$1" >>${folder}/slept
`,
  )
  chmodSync(sleep, 0o755)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string) => join(folder, name)

/** The number of pauses after which the command ran. */
const run = async (times: WatchdogTimes, late: readonly number[]): Promise<number> => {
  writeFileSync(file("uptime"), "1000.02 5.00\n")
  writeFileSync(file("late"), late.map((seconds) => `${seconds}\n`).join(""))
  writeFileSync(file("slept"), "")
  rmSync(file("ended"), { force: true })
  const script = watchdogScript(times, file("uptime"))
  const child = Bun.spawn(
    ["/bin/sh", "-c", script, "watchdog", "/bin/sh", "-c", `: >${file("ended")}`],
    {
      env: { PATH: `${folder}:${process.env["PATH"]}` },
      stdin: "ignore",
    },
  )
  expect(await child.exited).toBe(0)
  expect(existsSync(file("ended"))).toBe(true)
  return readFileSync(file("slept"), "utf8").split("\n").length - 1
}

const expected = (
  { limitSeconds, stepSeconds }: WatchdogTimes,
  late: readonly number[],
): number => {
  const policy = { limitMs: limitSeconds * 1000, everyMs: stepSeconds * 1000 }
  let absence = present(0)
  let now = 0
  for (let pauses = 0; ; pauses += 1) {
    if (isOver(absence, policy)) return pauses
    now += (stepSeconds + (late[pauses] ?? 0)) * 1000
    absence = stillAway(absence, now, policy)
  }
}

test("ten minutes are sixty pauses of ten seconds, a day has a pause in a minute, and short times have pauses of a second", () => {
  expect(timesOf(600)).toEqual({ limitSeconds: 600, stepSeconds: 10 })
  expect(timesOf(86_400)).toEqual({ limitSeconds: 86_400, stepSeconds: 60 })
  expect(timesOf(2)).toEqual({ limitSeconds: 2, stepSeconds: 1 })
  expect(timesOf(0.5)).toEqual({ limitSeconds: 1, stepSeconds: 1 })
})

test("without a suspension the command runs after the limit", async () => {
  expect(await run(timesOf(600), [])).toBe(60)
})

test("a watchdog that was frozen for hours in its last pause waits for another minute before its command runs", async () => {
  const late = [...Array.from({ length: 59 }, () => 0), 30_000]
  expect(await run(timesOf(600), late)).toBe(66)
})

test("the script ends when the rule says so, whatever the clock does", async () => {
  const one = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.constant(100_000))
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(20, 100, 300),
      fc.array(one, { maxLength: 40 }),
      async (seconds, late) => {
        const times = timesOf(seconds)
        expect(await run(times, late)).toBe(expected(times, late))
      },
    ),
    { numRuns: 15 },
  )
})

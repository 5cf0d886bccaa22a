/** Following a log file that grows, is truncated or replaced, and gets bursts. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { followLog } from "../../../../src/runner/opencode/launch/log-tail.ts"
import { createManualClock } from "../../../kit/clock.ts"

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tail-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

const follow = (name: string, more: { maxFileBytes?: number } = {}) => {
  const file = join(folder, name)
  writeFileSync(file, "")
  const lines: string[] = []
  let skipped = 0
  const tail = followLog({
    file,
    clock: createManualClock(),
    onLine: (line) => void lines.push(line),
    onSkipped: (bytes) => void (skipped += bytes),
    ...more,
  })
  return { file, lines, tail, skipped: () => skipped }
}

test("a line that is written in pieces is delivered whole", async () => {
  const { file, lines, tail } = follow("pieces")
  appendFileSync(file, "one\ntw")
  await tail.catchUp()
  expect(lines).toEqual(["one"])
  appendFileSync(file, "o\n\nthree\n")
  await tail.catchUp()
  expect(lines).toEqual(["one", "two", "three"])
})

test("only the end of a large burst is read, and the file is truncated when it is too large", async () => {
  const { file, lines, tail, skipped } = follow("burst", { maxFileBytes: 1024 * 1024 })
  const line = `${"x".repeat(99)}\n`
  appendFileSync(file, line.repeat(30_000))
  appendFileSync(file, "the last line\n")
  await tail.catchUp()
  expect(lines.at(-1)).toBe("the last line")
  expect(lines.length).toBeLessThan(3000)
  expect(skipped()).toBeGreaterThan(2_000_000)
  expect(statSync(file).size).toBe(0)
  appendFileSync(file, "and on\n")
  await tail.catchUp()
  expect(lines.at(-1)).toBe("and on")
})

test("a replaced file is read from its beginning", async () => {
  const { file, lines, tail } = follow("replaced")
  appendFileSync(file, "a long line of the first one\n")
  await tail.catchUp()
  writeFileSync(file, "new\n")
  await tail.catchUp()
  expect(lines).toEqual(["a long line of the first one", "new"])
})

test("a missing file is ignored", async () => {
  const { file, lines, tail } = follow("missing")
  rmSync(file)
  await tail.catchUp()
  expect(lines).toEqual([])
})

/** Busy loops end with their harness and leave nothing. Each test finds its loops by a temporary folder of its own. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { untilTrue } from "../kit/until-true.ts"
import { findLeftovers } from "./leftovers.ts"

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "load-test-"))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test("busy loops end and remove their file when the process that started them is killed", async () => {
  const harness = Bun.spawn([process.execPath, join(import.meta.dir, "programs/start-load.ts")], {
    env: { ...process.env, TMPDIR: folder },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  const loops = () => findLeftovers(folder).processes.filter((pid) => pid !== harness.pid)
  try {
    await untilTrue(() => readdirSync(folder).length > 0, "the disk loop's first file")
    expect(loops().length).toBeGreaterThanOrEqual(2)
  } finally {
    harness.kill("SIGKILL")
    await harness.exited
  }
  await untilTrue(() => loops().length === 0, "the end of the loops")
  expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([])
})

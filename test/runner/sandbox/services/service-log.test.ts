/** The log of a service on a disk that fails. */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync } from "node:fs"
import { rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openServiceLog } from "../../../../src/runner/sandbox/services/service-log.ts"

const root = mkdtempSync(join(tmpdir(), "service-log-"))
afterAll(() => rm(root, { recursive: true, force: true }))

test("bytes that the disk does not take are left out, and later ones are written", async () => {
  const folder = join(root, "logs")
  const log = openServiceLog(join(folder, "web.log"))
  const shown: string[] = []
  log.follow((bytes) => shown.push(Buffer.from(bytes).toString()))
  await log.append(Buffer.from("one "))
  await rm(folder, { recursive: true })
  // A file where the folder was: nothing can be written below it.
  await writeFile(folder, "")
  await log.append(Buffer.from("two "))
  await log.append(Buffer.from("three "))
  await rm(folder)
  await log.append(Buffer.from("four"))
  expect(String(await log.tail(100))).toBe("four")
  expect(shown).toEqual(["one ", "two ", "three ", "four"])
})

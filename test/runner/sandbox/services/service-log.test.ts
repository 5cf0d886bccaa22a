/** The log of a service: its bound on the disk, and a disk that fails. */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync } from "node:fs"
import { rm, stat, writeFile } from "node:fs/promises"
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

test("a chunk that is larger than both files keeps its end and stays within the bound", async () => {
  const path = join(root, "large", "web.log")
  const log = openServiceLog(path, 100)
  await log.append(Buffer.from("x".repeat(30)))
  await log.append(Buffer.from(`${"y".repeat(950)}the end`))
  const sizes = await Promise.all([path, `${path}.1`].map(async (file) => (await stat(file)).size))
  expect(sizes.every((size) => size <= 100)).toBe(true)
  expect(String(await log.tail(17))).toBe("yyyyyyyyyythe end")
})

/** Processes that replace one file at the same time. */
import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { replaceFile } from "../../src/lib/replace-file.ts"

const folder = mkdtempSync(join(tmpdir(), "replace-file-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test("processes that replace a file at the same time leave one of their texts and no other file", async () => {
  const place = join(folder, "shared")
  const path = join(place, "file")
  mkdirSync(place)
  const program = join(import.meta.dir, "../../src/lib/replace-file.ts")
  const texts = ["a", "b", "c"].map((letter) => letter.repeat(100_000))
  const children = texts.map((text) =>
    Bun.spawn([
      process.execPath,
      "-e",
      `import { replaceFile } from ${JSON.stringify(program)}
       for (let time = 0; time < 50; time++) replaceFile(${JSON.stringify(path)}, ${JSON.stringify(text[0])}.repeat(100_000))`,
    ]),
  )
  expect(await Promise.all(children.map(({ exited }) => exited))).toEqual([0, 0, 0])
  expect(texts).toContain(readFileSync(path, "utf8"))
  expect(readdirSync(place)).toEqual(["file"])
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test("a replacement that fails leaves no draft", () => {
  const place = join(folder, "directory")
  mkdirSync(join(place, "file"), { recursive: true })
  expect(() => replaceFile(join(place, "file"), "text")).toThrow()
  expect(readdirSync(place)).toEqual(["file"])
})

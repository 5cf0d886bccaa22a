/** Files in a directory of another user: links, FIFOs, large files and names that lead out are refused. */
import { afterAll, expect, test } from "bun:test"
import { chmodSync, existsSync, linkSync, mkdirSync, mkdtempSync, realpathSync } from "node:fs"
import { rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  holdBelow,
  holdExisting,
  isBelow,
  readRegularFile,
  UntrustedFile,
} from "../../src/lib/untrusted-files.ts"

const root = realpathSync(mkdtempSync(join(tmpdir(), "untrusted-files-")))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const inside = join(root, "inside")
mkdirSync(inside)
writeFileSync(join(root, "outside.txt"), "secret")
writeFileSync(join(inside, "a.txt"), "hello")

const read = (name: string, limits = {}) =>
  readRegularFile(join(inside, name), { maxBytes: 100, root: inside, ...limits }).then(String)

const problemOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )

test("a regular file is read", async () => {
  expect(await read("a.txt")).toBe("hello")
})

test("a symbolic link, a FIFO and a directory are refused without waiting", async () => {
  symlinkSync(join(root, "outside.txt"), join(inside, "link"))
  expect(Bun.spawnSync(["mkfifo", join(inside, "fifo")]).exitCode).toBe(0)
  mkdirSync(join(inside, "folder"))
  expect(await problemOf(read("link"))).toBeInstanceOf(Error)
  expect(await problemOf(read("fifo"))).toBeInstanceOf(UntrustedFile)
  expect(await problemOf(read("folder"))).toBeInstanceOf(Error)
})

test("a file above the size limit and a file outside the root are refused", async () => {
  expect(String(await problemOf(read("a.txt", { maxBytes: 4 })))).toContain("larger than 4 bytes")
  expect(String(await problemOf(read("../outside.txt")))).toContain("outside the directory")
})

test("a file that its mode closes for the reader is refused, also by a hard link", async () => {
  const other = { uid: 54_321, gid: 54_321 }
  chmodSync(join(root, "outside.txt"), 0o600)
  linkSync(join(root, "outside.txt"), join(inside, "hard"))
  expect(String(await problemOf(read("hard", { reader: other })))).toContain("may not read it")
  chmodSync(join(root, "outside.txt"), 0o604)
  expect(await read("hard", { reader: other })).toBe("secret")
})

test("missing directories are created below the root, and a link among them is refused", async () => {
  const held = await holdBelow(inside, ["one", "two"])
  writeFileSync(held.entry("file"), "x")
  await held.close()
  expect(existsSync(join(inside, "one/two/file"))).toBe(true)
  symlinkSync(root, join(inside, "out"))
  expect(await problemOf(holdBelow(inside, ["out", "three"]))).toBeInstanceOf(UntrustedFile)
  expect(await problemOf(holdExisting(inside, ["missing"]))).toBeInstanceOf(UntrustedFile)
  expect(existsSync(join(root, "three"))).toBe(false)
})

test.each(["", ".", "..", "a/b"])("the name %j is refused", async (name) => {
  const held = await holdExisting(inside, [])
  expect(() => held.entry(name)).toThrow("is not the name of a file")
  await held.close()
})

test("a directory whose name begins with that of the root is not below it", () => {
  expect(isBelow("/work", "/work/a")).toBe(true)
  expect(isBelow("/work", "/work")).toBe(true)
  expect(isBelow("/work", "/workspace")).toBe(false)
  expect(isBelow("/", "/etc")).toBe(true)
})

/** The key file of `sandpiper up`. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readKeyring } from "../../../src/hub/access/encrypt.ts"
import { ensureKeyFile } from "../../../src/hub/access/key-file.ts"

let folder: string
let path: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "key-file-"))
  path = join(folder, "hub", "encryption.key")
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test("a missing key file is made once, with mode 600 and a usable key", async () => {
  const key = ensureKeyFile(path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, "utf8")).toBe(`${key}\n`)
  expect(ensureKeyFile(path)).toBe(key)
  expect(readdirSync(join(folder, "hub"))).toEqual(["encryption.key"])
  const keyring = readKeyring(key)
  const place = { owner: "o", session: "s", field: "f" }
  expect(keyring.decrypt(place, keyring.encrypt(place, "x"))).toBe("x")
})

test("two state directories get two keys", () => {
  expect(ensureKeyFile(path)).not.toBe(ensureKeyFile(join(folder, "other.key")))
})

test("processes that start at once get the same key", async () => {
  const module = join(import.meta.dir, "../../../src/hub/access/key-file.ts")
  const code = `process.stdout.write((await import(${JSON.stringify(module)})).ensureKeyFile(${JSON.stringify(path)}))`
  const outputs = await Promise.all(
    Array.from({ length: 4 }, () => {
      const child = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" })
      return new Response(child.stdout).text()
    }),
  )
  expect(new Set(outputs).size).toBe(1)
  expect(outputs[0]).toBe(readFileSync(path, "utf8").trim())
  expect(readdirSync(join(folder, "hub"))).toEqual(["encryption.key"])
})

test("a symbolic link is refused and its target stays as it is", () => {
  mkdirSync(join(folder, "hub"))
  const target = join(folder, "target")
  symlinkSync(target, path)
  expect(() => ensureKeyFile(path)).toThrow("is a symbolic link")
  expect(existsSync(target)).toBeFalse()
  writeFileSync(target, "attacker's key", { mode: 0o600 })
  expect(() => ensureKeyFile(path)).toThrow("is a symbolic link")
})

test("a file that others can read is refused with the command that repairs it", () => {
  ensureKeyFile(path)
  chmodSync(path, 0o640)
  expect(() => ensureKeyFile(path)).toThrow("run chmod 600 on it")
})

test("a directory, a FIFO and an empty file are refused", () => {
  mkdirSync(path, { recursive: true })
  expect(() => ensureKeyFile(path)).toThrow("is not a regular file")
  const fifo = join(folder, "fifo")
  expect(Bun.spawnSync(["mkfifo", "-m", "600", fifo]).success).toBeTrue()
  expect(() => ensureKeyFile(fifo)).toThrow("is not a regular file")
  const empty = join(folder, "empty")
  writeFileSync(empty, "", { mode: 0o600 })
  expect(() => ensureKeyFile(empty)).toThrow("is empty")
})

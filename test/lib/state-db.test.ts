/** The database in the state directory: durability, and errors for a directory that cannot be used. */
import { expect, test } from "bun:test"
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openStateDb, readFact, writeFact } from "../../src/lib/state-db.ts"

test("a fact is readable after the database was reopened", async () => {
  const root = await mkdtemp(join(tmpdir(), "state-"))
  const first = openStateDb(root)
  writeFact(first, "a", "1")
  writeFact(first, "a", "2")
  first.close()
  const second = openStateDb(root)
  expect(readFact(second, "a")).toBe("2")
  expect(readFact(second, "b")).toBeUndefined()
  second.close()
  await rm(root, { recursive: true, force: true })
})

test("a directory that cannot be created is named in the error with its setting", async () => {
  const root = await mkdtemp(join(tmpdir(), "state-"))
  await writeFile(join(root, "file"), "")
  const path = join(root, "file/below")
  expect(() => openStateDb(path)).toThrow(
    `the state directory ${path} cannot be used (SANDPIPER_STATE_DIR)`,
  )
  await rm(root, { recursive: true, force: true })
})

test("a full disk is reported with the directory and its setting", async () => {
  if (process.getuid?.() !== 0)
    throw new Error("this test mounts a small disk and must run as root")
  const root = await mkdtemp(join(tmpdir(), "state-"))
  Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", root])
  try {
    await mkdir(join(root, "state"))
    await writeFile(join(root, "filler"), Buffer.alloc(64 * 1024)).catch(() => {})
    expect(() => openStateDb(join(root, "state"))).toThrow("cannot be used (SANDPIPER_STATE_DIR)")
  } finally {
    Bun.spawnSync(["umount", root])
    await rm(root, { recursive: true, force: true })
  }
})

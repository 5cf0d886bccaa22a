/** Errors of a full disk. */
import { expect, test } from "bun:test"
import { isStorageFull } from "../../src/lib/storage-full.ts"

test("errors of SQLite and of the file system on a full disk are recognized, also as a cause", () => {
  const withCode = (code: string, cause?: unknown) =>
    Object.assign(new Error(code, { cause }), { code })
  for (const code of ["SQLITE_FULL", "ENOSPC", "EDQUOT", "SQLITE_IOERR_SHMSIZE"]) {
    expect(isStorageFull(withCode(code))).toBe(true)
    expect(isStorageFull(new Error("outer", { cause: withCode(code) }))).toBe(true)
  }
  expect(isStorageFull(new Error("database or disk is full: SQLITE_FULL"))).toBe(true)
  for (const other of [withCode("SQLITE_BUSY"), withCode("ENOENT"), new Error("x"), "ENOSPC", null])
    expect(isStorageFull(other)).toBe(false)
})

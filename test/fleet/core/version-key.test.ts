/** Versions of the runtime in a sandbox. */
import { expect, test } from "bun:test"
import { isAtLeast, versionKey } from "../../../src/fleet/core/version-key.ts"
import { digestOf } from "../../../src/lib/digest.ts"

test("the key of a base snapshot depends on every file and on the image, not on the order", () => {
  const files = [
    { path: "start.sh", digest: "1" },
    { path: "a.ts", digest: "2" },
  ]
  const key = versionKey(files, "v1", digestOf)
  expect(versionKey(files.toReversed(), "v1", digestOf)).toBe(key)
  expect(versionKey(files, "v2", digestOf)).not.toBe(key)
  expect(versionKey([{ path: "start.sh", digest: "3" }], "v1", digestOf)).not.toBe(key)
})

test("versions are compared number by number, and a missing version is older than every minimum", () => {
  expect(isAtLeast("0.10.0", "0.9.1")).toBe(true)
  expect(isAtLeast("0.9", "0.9.0")).toBe(true)
  expect(isAtLeast("1.2.3", "1.2.4")).toBe(false)
  expect(isAtLeast(undefined, "0.0.1")).toBe(false)
  expect(isAtLeast(undefined, undefined)).toBe(true)
})

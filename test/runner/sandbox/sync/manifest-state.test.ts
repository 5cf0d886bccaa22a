/** What a save and a restore transfer: the decision, by properties. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Manifest,
  manifestOf,
  planRestore,
  planSave,
  planSweep,
  readListing,
  type Scanned,
} from "../../../../src/runner/sandbox/sync/manifest-state.ts"

const file = fc.record({
  path: fc.constantFrom("a", "b", "c/d", "e"),
  sha256: fc.constantFrom("1", "2", "3").map((digit) => digit.repeat(64)),
  bytes: fc.constant(1),
  mode: fc.constantFrom(0o644, 0o755),
})
const scan: fc.Arbitrary<Scanned> = fc
  .uniqueArray(file, { selector: ({ path }) => path })
  .map((files) => ({
    files: files.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    leftOut: [],
  }))

const contents = (manifest: Manifest | undefined) =>
  new Set(manifest?.files.map(({ sha256 }) => sha256))

describe("saving a workspace", () => {
  test("at every moment the storage has all files of the manifest that is in it", () => {
    fc.assert(
      fc.property(fc.array(scan, { minLength: 1 }), (states) => {
        const storage = new Set<string>()
        let stored: Manifest | undefined
        for (const now of states) {
          const { put, remove, isChanged } = planSave(stored, now)
          for (const { sha256 } of put) {
            storage.add(sha256)
            expect(storage.isSupersetOf(contents(stored))).toBe(true)
          }
          if (isChanged) stored = manifestOf(now)
          expect(storage.isSupersetOf(contents(stored))).toBe(true)
          for (const sha256 of remove) storage.delete(sha256)
          expect(storage).toEqual(contents(stored))
          expect(stored?.files).toEqual(now.files)
        }
      }),
    )
  })

  test("a workspace that has not changed sends nothing", () => {
    fc.assert(
      fc.property(scan, (now) => {
        const again = planSave(manifestOf(now), now)
        expect(again).toEqual({ put: [], remove: [], isChanged: false })
      }),
    )
  })

  test("a file is sent once, however many paths have its content", () => {
    const same = { sha256: "1".repeat(64), bytes: 1, mode: 0o644 }
    const now = {
      files: [
        { path: "a", ...same },
        { path: "b", ...same },
      ],
      leftOut: [],
    }
    expect(planSave(undefined, now).put.length).toBe(1)
  })

  test("a restore brings every file that is missing and none that exists", () => {
    fc.assert(
      fc.property(scan, scan, (saved, now) => {
        const existing = new Set(now.files.map(({ path }) => path))
        const paths = planRestore(manifestOf(saved), now).map(({ path }) => path)
        const expected = saved.files.map(({ path }) => path).filter((path) => !existing.has(path))
        expect(paths).toEqual(expected)
      }),
    )
  })
})

describe("sweeping the storage", () => {
  const listing = fc.array(
    fc.record({
      sha256: fc.constantFrom("1", "2", "3", "4").map((digit) => digit.repeat(64)),
      at: fc.integer({ min: 0, max: 10_000_000 }),
    }),
  )

  test("a sweep of the storage deletes what is old and in no manifest, and never a file of the manifest", () => {
    fc.assert(
      fc.property(listing, scan, fc.integer({ min: 0, max: 10_000_000 }), (listed, saved, now) => {
        const swept = planSweep(listed, saved, now)
        const wanted = contents(manifestOf(saved))
        const expected = listed
          .filter(({ sha256, at }) => !wanted.has(sha256) && now - at >= 3_600_000)
          .map(({ sha256 }) => sha256)
        expect(swept).toEqual(expected)
      }),
    )
  })

  test("a sweep deletes nothing if the storage does not say what time it is", () => {
    const listed = [{ sha256: "1".repeat(64), at: 0 }]
    expect(planSweep(listed, undefined, Number.NaN)).toEqual([])
  })

  test("a listing is read without names and times that are not ours", () => {
    const hash = "ab".repeat(32)
    const entry = (key: string, time: string) =>
      `<Contents>\n<Key>${key}</Key><LastModified>${time}</LastModified></Contents>`
    const xml = [
      "<IsTruncated>true</IsTruncated>",
      entry(`sandboxes/s/files/${hash}`, "2026-01-02T03:04:05.000Z"),
      entry("sandboxes/s/manifest.json", "2026-01-02T03:04:05.000Z"),
      entry(`sandboxes/s/files/${hash}0`, "2026-01-02T03:04:05.000Z"),
      entry(`sandboxes/s/files/${hash}`, "yesterday"),
    ].join("")
    const at = Date.UTC(2026, 0, 2, 3, 4, 5)
    expect(readListing(xml)).toEqual({ objects: [{ sha256: hash, at }], isLast: false })
    expect(readListing("<html>an error</html>")).toEqual({ objects: [], isLast: true })
  })
})

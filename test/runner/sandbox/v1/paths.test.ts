/** The pure parts of `/v1`: paths, ranges, replaced text, and the ring of log entries. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { replaceText } from "../../../../src/runner/sandbox/v1/edit.ts"
import {
  addEntry,
  EMPTY_RING,
  type LogRing,
  selectEntries,
} from "../../../../src/runner/sandbox/v1/log-ring-state.ts"
import { namesBelow, pathOf } from "../../../../src/runner/sandbox/v1/paths.ts"
import { Problem, problemOf } from "../../../../src/runner/sandbox/v1/problem.ts"
import { parseRange } from "../../../../src/runner/sandbox/v1/range.ts"

const ROOT = "/workspace"

describe("the path of a request", () => {
  test("the path of a request is relative to the workspace, or absolute below it", () => {
    expect(namesBelow(ROOT, "a/b")).toEqual(["a", "b"])
    expect(namesBelow(ROOT, "./a//b/")).toEqual(["a", "b"])
    expect(namesBelow(ROOT, `${ROOT}/a`)).toEqual(["a"])
    expect(namesBelow(ROOT, ROOT)).toEqual([])
    expect(namesBelow(ROOT, ".")).toEqual([])
    expect(namesBelow("/", "/etc")).toEqual(["etc"])
  })

  test("the path of a request is refused outside the workspace, with .., NUL, broken Unicode, or names that are too long", () => {
    const refused = [
      "..",
      "a/../b",
      "a/..",
      "/etc/passwd",
      "/workspaceship/a",
      "/work",
      "/",
      "/proc/self/fd/3",
      `${ROOT}/../other`,
      "a\0b",
      "\uD800",
      "x".repeat(256),
      "ä".repeat(128),
      "a/".repeat(2049),
    ]
    for (const path of refused) expect(() => namesBelow(ROOT, path)).toThrow(Problem)
  })

  test("never leads out of the workspace, for any text", () => {
    const piece = fc.constantFrom("..", ".", "/", "//", "a", "\\", "%2e", "work", "space", "\0")
    const anyPath = fc.oneof(
      fc.string(),
      fc.array(piece).map((pieces) => pieces.join("/")),
    )
    fc.assert(
      fc.property(anyPath, (path) => {
        try {
          const names = namesBelow(ROOT, path)
          expect(names.every((name) => !/^\.{0,2}$|[/\0]/.test(name))).toBe(true)
          expect(pathOf(ROOT, names)).toStartWith(ROOT)
        } catch (error) {
          expect(error).toBeInstanceOf(Problem)
        }
      }),
    )
  })
})

test("a range header selects bytes, everything, or nothing that exists", () => {
  expect(parseRange(undefined, 10)).toBe("whole")
  expect(parseRange("bytes=0-3", 10)).toEqual({ start: 0, end: 4 })
  expect(parseRange("bytes=4-", 10)).toEqual({ start: 4, end: 10 })
  expect(parseRange("bytes=4-99", 10)).toEqual({ start: 4, end: 10 })
  expect(parseRange("bytes=-3", 10)).toEqual({ start: 7, end: 10 })
  expect(parseRange("bytes=-30", 10)).toEqual({ start: 0, end: 10 })
  expect(parseRange("bytes=10-", 10)).toBe("unsatisfiable")
  expect(parseRange("bytes=-0", 10)).toBe("unsatisfiable")
  expect(parseRange("bytes=0-", 0)).toBe("unsatisfiable")
  for (const ignored of ["bytes=3-1", "bytes=0-1,4-5", "items=0-1", "bytes=-", "nonsense"]) {
    expect(parseRange(ignored, 10)).toBe("whole")
  }
})

test("a range lies inside the file, for any header", () => {
  fc.assert(
    fc.property(fc.nat(), fc.option(fc.nat()), fc.option(fc.nat()), (size, first, last) => {
      const range = parseRange(`bytes=${first ?? ""}-${last ?? ""}`, size)
      if (typeof range === "string") return
      expect(range.start).toBeGreaterThanOrEqual(0)
      expect(range.end).toBeGreaterThan(range.start)
      expect(range.end).toBeLessThanOrEqual(size)
    }),
  )
})

describe("replaced text", () => {
  const edit = (oldText: string, newText: string, replaceAll?: boolean) =>
    replaceText("one two one", { path: "f", oldText, newText, replaceAll })

  test("an edit replaces one place, or all of them if asked", () => {
    expect(edit("two", "$& 2")).toEqual({ text: "one $& 2 one", replacements: 1 })
    expect(edit("one", "1", true)).toEqual({ text: "1 two 1", replacements: 2 })
  })

  test("an edit is refused if the text occurs nowhere, several times, or is empty", () => {
    expect(() => edit("three", "3")).toThrow("does not occur in f")
    expect(() => edit("one", "1")).toThrow("occurs 2 times in f")
    expect(() => edit("", "1")).toThrow("oldText is empty")
  })
})

test("a failed system call is explained, also as the cause of another error", () => {
  const missing = Object.assign(new Error("raw"), { code: "ENOENT" })
  expect(problemOf(missing, "/w/a")).toMatchObject({ status: 404, message: "/w/a does not exist" })
  const wrapped = new Error("wrapped", { cause: Object.assign(new Error(""), { code: "ENOSPC" }) })
  expect(problemOf(wrapped, "/w/a")).toMatchObject({ status: 507 })
  const other = new Error("other")
  expect(problemOf(other, "/w/a")).toBe(other)
})

describe("the log of a background process", () => {
  const add = (ring: LogRing, text: string, maxBytes = 10) =>
    addEntry(ring, { stream: "stdout", timestampMs: 0, data: Buffer.from(text) }, maxBytes)

  test("the log of a background process numbers its entries and keeps the newest that fit", () => {
    const ring = ["aaaa", "bbbb", "cccc"].reduce((before, text) => add(before, text), EMPTY_RING)
    expect(ring.entries.map(({ sequence }) => sequence)).toEqual([2, 3])
    expect(selectEntries(ring, { since: 2 }).map(({ sequence }) => sequence)).toEqual([3])
    expect(selectEntries(ring, { tail: 1 }).map(({ sequence }) => sequence)).toEqual([3])
    expect(selectEntries(ring, { stream: "stderr" })).toEqual([])
  })

  test("never holds more than its limit, except for one large entry", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 30 })), (texts) => {
        const ring = texts.reduce((before, text) => add(before, text), EMPTY_RING)
        const bytes = ring.entries.reduce((sum, { data }) => sum + data.length, 0)
        expect(ring.bytes).toBe(bytes)
        expect(bytes <= 10 || ring.entries.length === 1).toBe(true)
        expect(ring.lastSequence).toBe(texts.length)
      }),
    )
  })
})

/** Changes as unified patches, from both formats of OpenCode. */
import { describe, expect, test } from "bun:test"
import { mergePatches, toPatch } from "../../../src/runner/commands/patch.ts"

const counts = { additions: 1, deletions: 0 }

describe("patches of changed files", () => {
  test("a change that OpenCode reports as a patch keeps that patch", () => {
    const patch = "--- a\n+++ a\n@@ -0,0 +1,1 @@\n+x\n"
    const file = { file: "a", status: "added", ...counts, patch } as const
    expect(toPatch(file)).toEqual({ path: "a", status: "added", ...counts, diff: patch })
  })

  test("a change that OpenCode reports as two texts is converted to a patch", () => {
    const file = {
      file: "a.txt",
      status: "modified",
      ...counts,
      before: "one\n",
      after: "one\ntwo\n",
    } as const
    const { diff } = toPatch(file)
    expect(diff).toContain("--- a.txt")
    expect(diff).toContain("@@ -1,1 +1,2 @@\n one\n+two\n")
  })

  test("a file that several prompts changed is listed once, with its patches in order", () => {
    const change = (status: "added" | "modified" | "deleted", diff: string) => ({
      path: "a",
      status,
      ...counts,
      diff,
    })
    expect(mergePatches([change("added", "first\n"), change("modified", "second\n")])).toEqual([
      { path: "a", status: "added", additions: 2, deletions: 0, diff: "first\nsecond\n" },
    ])
    const deleted = mergePatches([change("modified", "first\n"), change("deleted", "second\n")])
    expect(deleted[0]?.status).toBe("deleted")
  })
})

/** Changes as unified patches, in whichever of its two forms OpenCode tells them. */
import { describe, expect, test } from "bun:test"
import { mergePatches, toPatch } from "../../../src/runner/commands/patch.ts"

const counts = { additions: 1, deletions: 0 }

describe("a changed file", () => {
  test("that comes as a patch keeps it as it is", () => {
    const patch = "--- a\n+++ a\n@@ -0,0 +1,1 @@\n+x\n"
    const file = { file: "a", status: "added", ...counts, patch } as const
    expect(toPatch(file)).toEqual({ path: "a", status: "added", ...counts, diff: patch })
  })

  test("that comes as two texts is compared here", () => {
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

  test("that several prompts changed is listed once, its patches in order", () => {
    const change = (status: "added" | "modified" | "deleted", diff: string) => ({
      path: "a",
      status,
      ...counts,
      diff,
    })
    expect(mergePatches([change("added", "first\n"), change("modified", "second\n")])).toEqual([
      { path: "a", status: "added", additions: 2, deletions: 0, diff: "first\nsecond\n" },
    ])
    const gone = mergePatches([change("modified", "first\n"), change("deleted", "second\n")])
    expect(gone[0]?.status).toBe("deleted")
  })
})

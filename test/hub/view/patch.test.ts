/** Diffs as rows: line numbers, changed words, renamed files, and diffs whose counts are wrong. */
import { expect, test } from "bun:test"
import { parseDiff } from "../../../src/hub/view/patch.ts"

const DIFF = `--- a/src/a.ts
+++ b/src/a.ts
@@ -3,3 +3,3 @@
 first
-const a = one
+const a = two
 last
`

test("a diff has line numbers on both sides and marks the words that differ", () => {
  const [file] = parseDiff(DIFF) ?? []
  expect(file).toMatchObject({ path: "src/a.ts", added: 1, removed: 1 })
  expect(file?.hunks[0]?.lines).toEqual([
    { type: "same", text: "first", before: 3, after: 3, marks: [] },
    { type: "removed", text: "const a = one", before: 4, marks: [[10, 13]] },
    { type: "added", text: "const a = two", after: 4, marks: [[10, 13]] },
    { type: "same", text: "last", before: 5, after: 5, marks: [] },
  ])
})

test("a hunk whose counts are wrong is no diff, and the caller shows the text", () => {
  expect(parseDiff(DIFF.replace("-3,3", "-3,9"))).toBeUndefined()
  expect(parseDiff("just text")).toBeUndefined()
})

test("a renamed file has its former path, a new file has none", () => {
  expect(parseDiff(DIFF.replace("a/src/a.ts", "a/src/old.ts"))).toMatchObject([
    { path: "src/a.ts", from: "src/old.ts" },
  ])
  const [added] = parseDiff("--- /dev/null\n+++ b/new.ts\n@@ -0,0 +1,1 @@\n+x\n") ?? []
  expect(added?.path).toBe("new.ts")
  expect(added?.from).toBeUndefined()
})

/** The prompt of a review and the parser of its answer. */
import { describe, expect, test } from "bun:test"
import { readFindings, reviewPrompt, toReview } from "../../../src/runner/commands/review-text.ts"

const file = (path: string, diff: string) =>
  ({ path, status: "modified", additions: 3, deletions: 1, diff }) as const

describe("the review prompt", () => {
  test("the review prompt contains the changes and the format of the answer", () => {
    const prompt = reviewPrompt([file("a.ts", "+let a = 1")])
    expect(prompt).toContain("### a.ts (modified)\n+let a = 1")
    expect(prompt).toContain('"overallSummary"')
  })

  test("the review prompt is limited per file and in total, and says how much it omits", () => {
    const files = Array.from({ length: 20 }, (_, n) => file(`f${n}`, "x".repeat(50_000)))
    const prompt = reviewPrompt(files)
    expect(prompt.length).toBeLessThan(210_000)
    expect(prompt).toContain("### f0 (modified)")
    expect(prompt).toContain("(10000 more characters are not shown)")
    expect(prompt).toContain("### f19 (modified)\n\n(50000 more characters are not shown)")
  })
})

describe("the review answer", () => {
  const good = { overallSummary: "fine", files: [{ path: "a.ts", summary: "s", findings: [] }] }

  test("the JSON of the answer is found alone, in a fenced block and between prose", () => {
    const json = JSON.stringify(good)
    for (const text of [json, `\`\`\`json\n${json}\n\`\`\``, `Sure! ${json} Anything else?`]) {
      expect(readFindings(text)).toEqual({ ok: true, findings: good })
    }
  })

  test("an invalid answer is reported with the problem", () => {
    expect(readFindings("looks good")).toEqual({
      ok: false,
      problem: "it contains no JSON object",
    })
    expect(readFindings("{broken}").ok).toBe(false)
    const partial = readFindings(`{"files": []}`)
    expect(partial.ok ? "" : partial.problem).toStartWith("overallSummary: ")
  })

  test("ids, order, line counts and totals of a review are computed by the runner", () => {
    const finding = {
      lineStart: 5,
      lineEnd: 2,
      severity: "critical",
      category: "bug",
      title: "t",
      description: "d",
    } as const
    const review = toReview([file("a.ts", "+x")], {
      overallSummary: "s",
      files: [
        { path: "a.ts", summary: "", findings: [finding, { ...finding, severity: "nitpick" }] },
        { path: "unknown.ts", summary: "", findings: [] },
      ],
    })
    expect(review.stats).toEqual({ critical: 1, warning: 0, suggestion: 0, nitpick: 1 })
    expect(review.files[0]).toMatchObject({ reviewOrder: 1, linesAdded: 3, linesDeleted: 1 })
    expect(review.files[0]?.findings[1]).toMatchObject({ id: "1.2", lineStart: 5, lineEnd: 5 })
    expect(review.files[1]).toMatchObject({ reviewOrder: 2, linesAdded: 0 })
  })
})

/** The prompt of a review, with a size limit, and the parser of the model's answer. Pure. */
import { z } from "zod"
import type { Outbound } from "../../wire/frames/index.ts"
import type { FilePatch } from "./patch.ts"

type Review = NonNullable<Outbound<"review-result">["data"]>

const severities = ["critical", "warning", "suggestion", "nitpick"] as const

const finding = z.object({
  lineStart: z.int(),
  lineEnd: z.int().optional(),
  severity: z.enum(severities),
  category: z.string().default("general"),
  title: z.string(),
  description: z.string(),
  suggestedFix: z.string().optional(),
})

const answer = z.object({
  overallSummary: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      summary: z.string().default(""),
      findings: z.array(finding).default([]),
    }),
  ),
})

export type Findings = z.output<typeof answer>

export type ReadFindings =
  | { readonly ok: true; readonly findings: Findings }
  | { readonly ok: false; readonly problem: string }

/** Size limits for the model's context: beyond the total only the names of files are listed. */
const MAX_DIFF_CHARS = 200_000
const MAX_FILE_CHARS = 40_000

const FORMAT = `Answer with one JSON object and nothing else, in this form:
{"overallSummary": string,
 "files": [{"path": string, "summary": string,
   "findings": [{"lineStart": number, "lineEnd": number, "severity": "critical" | "warning" | "suggestion" | "nitpick",
     "category": string, "title": string, "description": string, "suggestedFix": string (optional)}]}]}
Lines are those of the file after the change. List the files in the order in which they are best read.`

export const reviewPrompt = (files: readonly FilePatch[]): string => {
  let left = MAX_DIFF_CHARS
  const shown = files.map(({ path, status, diff }) => {
    const room = Math.min(left, MAX_FILE_CHARS)
    const text = diff.slice(0, room)
    left -= text.length
    const rest = diff.length > room ? `\n(${diff.length - room} more characters are not shown)` : ""
    return `### ${path} (${status})\n${text}${rest}`
  })
  return [
    "Review the following changes as a careful colleague: correctness first, then safety, then clarity.",
    "Report only what you can point to in these changes. Change no files.",
    FORMAT,
    ...shown,
  ].join("\n\n")
}

export const retryPrompt = (problem: string): string =>
  `That could not be read as the review: ${problem}. ${FORMAT}`

/** Parses the text between the first and the last brace: models add fences and prose around the JSON. */
export const readFindings = (text: string): ReadFindings => {
  const start = text.indexOf("{")
  const end = text.lastIndexOf("}")
  if (start === -1 || end < start) return { ok: false, problem: "it contains no JSON object" }
  let json: unknown
  try {
    json = JSON.parse(text.slice(start, end + 1))
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : "it is not JSON" }
  }
  const parsed = answer.safeParse(json)
  if (parsed.success) return { ok: true, findings: parsed.data }
  const issue = parsed.error.issues[0]
  return { ok: false, problem: `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "malformed"}` }
}

/** Ids, line counts and totals are computed here, because a model's arithmetic is not reliable. */
export const toReview = (changed: readonly FilePatch[], findings: Findings): Review => {
  const stats = { critical: 0, warning: 0, suggestion: 0, nitpick: 0 }
  const files = findings.files.map((file, order) => {
    const patch = changed.find(({ path }) => path === file.path)
    return {
      path: file.path,
      summary: file.summary,
      reviewOrder: order + 1,
      linesAdded: patch?.additions ?? 0,
      linesDeleted: patch?.deletions ?? 0,
      findings: file.findings.map(({ lineStart, lineEnd, suggestedFix, ...rest }, index) => {
        stats[rest.severity] += 1
        return {
          ...rest,
          id: `${order + 1}.${index + 1}`,
          file: file.path,
          lineStart,
          lineEnd: Math.max(lineStart, lineEnd ?? lineStart),
          ...(suggestedFix !== undefined && { suggestedFix }),
        }
      }),
    }
  })
  return { files, overallSummary: findings.overallSummary, stats }
}

/** The findings of a review of the session's changes. */
import { z } from "zod"

const severities = ["critical", "warning", "suggestion", "nitpick"] as const

const finding = z.object({
  id: z.string(),
  file: z.string(),
  lineStart: z.int(),
  lineEnd: z.int(),
  severity: z.enum(severities),
  category: z.string(),
  title: z.string(),
  description: z.string(),
  suggestedFix: z.string().optional(),
})

const reviewedFile = z.object({
  path: z.string(),
  summary: z.string(),
  reviewOrder: z.int(),
  linesAdded: z.int(),
  linesDeleted: z.int(),
  findings: z.array(finding),
})

export const reviewData = z.object({
  files: z.array(reviewedFile),
  overallSummary: z.string(),
  stats: z.record(z.enum(severities), z.int()),
})

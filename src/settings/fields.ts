/** Forms that settings may have, beyond the plain ones: addresses of repositories, lists in JSON, sets of services. */
import { z } from "zod"
import { GIT_NAME_RULE, GIT_URL_RULE, isGitName, isGitUrl } from "../lib/git-url.ts"

export const gitUrl = z.string().refine(isGitUrl, { error: GIT_URL_RULE })
export const gitName = z.string().refine(isGitName, { error: GIT_NAME_RULE })
export const gitDepth = z.coerce
  .number("must be a number of commits")
  .int("must be a number of commits")
  .min(1, "must be at least 1")

export const jsonOf = <Schema extends z.ZodType>(schema: Schema, expected: string) =>
  z.string().transform((text, context): z.output<Schema> => {
    const parsed = schema.safeParse(parseJson(text))
    if (parsed.success) return parsed.data
    const [issue] = parsed.error.issues
    const where =
      issue && issue.path.length > 0 ? ` (at ${issue.path.join(".")}: ${issue.message})` : ""
    context.addIssue(`must be ${expected}${where}`)
    return z.NEVER
  })

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const repositoryList = z.array(
  z.object({
    url: gitUrl,
    branch: gitName.optional(),
    ref: gitName.optional(),
    depth: gitDepth.optional(),
    name: z
      .string()
      .regex(/^[A-Za-z0-9][\w.-]{0,99}$/, { error: "must be a directory's name" })
      .optional(),
    token: z.string().min(1).optional(),
  }),
)
export const personaList = z.array(
  z.object({ filename: z.string(), content: z.string(), sortOrder: z.number().optional() }),
)

const serviceNames = ["vnc", "vscode", "ttyd"] as const
type ServiceName = (typeof serviceNames)[number]

const isServiceName = (name: string): name is ServiceName =>
  serviceNames.some((known) => known === name)

const namesIn = (text: string): readonly string[] => {
  if (text === "all") return serviceNames
  return text === "none" ? [] : text.split(",").map((name) => name.trim())
}

export const serviceList = z.string().transform((text, context): readonly ServiceName[] => {
  const names = namesIn(text)
  if (names.every(isServiceName)) return names
  context.addIssue("must be all, none, or some of vnc,vscode,ttyd")
  return z.NEVER
})

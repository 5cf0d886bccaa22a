/** Forms of values that several settings share, each with the sentence that follows the setting's name in an error. */
import { z } from "zod"
import { GIT_NAME_RULE, GIT_URL_RULE, isGitName, isGitUrl } from "../lib/git-url.ts"

export const secret = z.string().min(16, "must be at least 16 characters long")
export const someText = z.string().min(1, "must not be empty")
export const file = z.string().min(1, "must be a file")
export const directory = z.string().min(1, "must be a directory")
export const seconds = z.coerce
  .number("must be a number of seconds")
  .min(0, "must not be negative")
  .max(86_400, "must be at most a day (86400)")
export const port = z.coerce
  .number("must be a port number, 0 to 65535")
  .int("must be a port number, 0 to 65535")
  .min(0, "must be a port number, 0 to 65535")
  .max(65_535, "must be a port number, 0 to 65535")

const listOf = (text: string): readonly string[] =>
  text.split(",").flatMap((entry) => entry.trim() || [])

/** `none`, or ports separated by commas. */
export const portList = z
  .string()
  .transform((text) => (text === "none" ? [] : listOf(text).map(Number)))
  .refine((ports) => ports.every((one) => Number.isInteger(one) && one > 0 && one < 65_536), {
    error: "must be port numbers separated by commas",
  })

/** Checked as a URL and kept as text, since a URL object is mutable. */
export const urlWith = (error: string, isValid: (url: URL) => boolean) =>
  z.string().refine((text) => URL.canParse(text) && isValid(new URL(text)), { error })

export const nameList = z
  .string()
  .transform(listOf)
  .refine((names) => names.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)), {
    error: "must be names of variables separated by commas",
  })

export const hostNames = z
  .string()
  .transform(listOf)
  .refine((names) => names.every((name) => /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(name)), {
    error: "must be host names without a port, separated by commas",
  })

const MODEL = /^[^/\s]+\/\S+$/

/** Without a provider it is completed when the endpoints are known. */
export const model = z.string().regex(/^\S+$/, {
  error: "must be a model or provider/model, such as anthropic/claude-sonnet-4",
})

/** Credentials do not belong into an address, which is printed and logged. */
const isEndpointUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === "" && password === ""
}

export const endpointUrl = z.string().refine(isEndpointUrl, {
  error: "must be an http:// or https:// URL without a user, such as http://127.0.0.1:8000/v1",
})

export const urlList = z
  .string()
  .transform((text) => (text === "none" ? [] : listOf(text)))
  .refine((urls) => urls.every(isEndpointUrl), {
    error: "must be http:// or https:// URLs separated by commas, or none",
  })

const EGRESS_HOST =
  /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$|^\[[0-9a-f:]+\](:\d{1,5})?$/i

export const hostList = z
  .string()
  .transform((text) => (text === "none" ? [] : listOf(text)))
  .refine((hosts) => hosts.every((host) => EGRESS_HOST.test(host)), {
    error: "must be hosts separated by commas, such as github.com,*.npmjs.org,10.0.0.5:8080",
  })

export const modelList = z
  .string()
  .transform(listOf)
  .refine((models) => models.length > 0 && models.every((name) => MODEL.test(name)), {
    error: "must be models separated by commas, such as anthropic/claude-sonnet-4,openai/*",
  })

/** Origins exactly as browsers send them: one with a default port or a path would never match. */
export const originList = z
  .string()
  .transform((text) => listOf(text.toLowerCase()))
  .refine(
    (origins) =>
      origins.every((origin) => URL.canParse(origin) && new URL(origin).origin === origin),
    {
      error:
        "must be origins separated by commas, such as https://app.example.com,http://localhost:3000",
    },
  )

export const gitUrl = z.string().refine(isGitUrl, { error: GIT_URL_RULE })
export const gitName = z.string().refine(isGitName, { error: GIT_NAME_RULE })
export const gitDepth = z.coerce
  .number("must be a number of commits")
  .int("must be a number of commits")
  .min(1, "must be at least 1")

export const count = z.coerce
  .number("must be a number")
  .int("must be a whole number")
  .min(0, "must be at least 0")

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

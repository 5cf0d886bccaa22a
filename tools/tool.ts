/** A tool as OpenCode takes it from a file's default export. */
import { z } from "zod"
import { prose } from "../src/wire/operations/fields.ts"

export interface ToolContext {
  readonly sessionID: string
  readonly messageID: string
  readonly callID?: string
  readonly agent: string
  readonly abort: AbortSignal
  /** Where the agent works. */
  readonly directory: string
  readonly worktree: string
  /** Shows how far a long call is. */
  readonly metadata: (shown: {
    readonly title?: string
    readonly metadata?: Readonly<Record<string, unknown>>
  }) => unknown
}

export interface Attachment {
  readonly type: "file"
  readonly mime: string
  readonly url: string
  readonly filename?: string
}

export type ToolResult =
  | string
  | {
      readonly output: string
      readonly title?: string
      readonly metadata?: Readonly<Record<string, unknown>>
      readonly attachments?: readonly Attachment[]
    }

export interface Tool {
  readonly description: string
  readonly args: z.ZodRawShape
  readonly execute: (args: unknown, context: ToolContext) => Promise<ToolResult>
}

interface Definition<Input extends z.ZodObject> {
  readonly description: string
  readonly input: Input
  readonly run: (input: z.output<Input>, context: ToolContext) => Promise<ToolResult> | ToolResult
}

/** OpenCode hands arguments over as the model wrote them: they are checked here, before anything is done. */
export const defineTool = <Input extends z.ZodObject>({
  description,
  input,
  run,
}: Definition<Input>): Tool => {
  const takesNothing = Object.keys(input.shape).length === 0
  return {
    description,
    args: takesNothing ? placeholder.shape : input.shape,
    execute: async (args, context) => {
      if (takesNothing) readArguments(placeholder, args)
      return run(readArguments(input, takesNothing ? {} : args), context)
    },
  }
}

/** Some models refuse to call a tool whose schema has no field at all. */
const placeholder = z.object({ reason: prose("Why you call this; may be left out").optional() })

/** Says which argument is wrong and what it must be. */
export const readArguments = <Input extends z.ZodObject>(
  input: Input,
  args: unknown,
): z.output<Input> => {
  const given = withoutNulls(input, args)
  const first = input.safeParse(given)
  if (first.success) return first.data
  const second = input.safeParse(withParsedTexts(given, first.error))
  if (second.success) return second.data
  const problems = first.error.issues.map(
    ({ path, message }) => `${path.join(".") || "the arguments"} ${message}`,
  )
  throw new Error(`${problems.join("; ")}. Correct this and call the tool again.`)
}

/** Models write null for what they leave out; a field that takes null keeps it. */
const withoutNulls = ({ shape }: z.ZodObject, args: unknown): Record<string, unknown> => {
  if (typeof args !== "object" || args === null) return {}
  const takesNull = (name: string) => z.safeParse(shape[name] ?? z.never(), null).success
  return Object.fromEntries(
    Object.entries(args).filter(([name, value]) => value !== null || takesNull(name)),
  )
}

/** Models also write objects, lists and numbers as the text of their JSON. */
const withParsedTexts = (
  given: Readonly<Record<string, unknown>>,
  { issues }: z.ZodError,
): Record<string, unknown> => {
  const wrong = new Set(issues.flatMap(({ path: [field] }) => (field === undefined ? [] : [field])))
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      wrong.has(name) && typeof value === "string" ? parsedOr(value) : value,
    ]),
  )
}

const parsedOr = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A tool in the form that OpenCode expects as the default export of a file. */
import { z } from "zod"
import { prose } from "../src/wire/operations/fields.ts"

export interface ToolContext {
  readonly sessionID: string
  readonly messageID: string
  readonly callID?: string
  readonly agent: string
  readonly abort: AbortSignal
  /** The working directory of the agent. */
  readonly directory: string
  readonly worktree: string
  /** Shows the progress of a long call to the user. */
  readonly metadata: (progress: {
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

/** OpenCode passes the arguments as the model wrote them, so they are checked here. */
export const defineTool = <Input extends z.ZodObject>({
  description,
  input,
  run,
}: Definition<Input>): Tool => {
  const hasNoArguments = Object.keys(input.shape).length === 0
  return {
    description,
    args: hasNoArguments ? placeholder.shape : shownShape(input.shape),
    execute: async (args, context) => {
      if (hasNoArguments) readArguments(placeholder, args)
      return run(readArguments(input, hasNoArguments ? {} : args), context)
    },
  }
}

/**
 * The schema that the model sees. OpenCode shows a preprocessed field, as of a number in a query string, as optional: the
 * model then leaves out what is required.
 */
const shownShape = (shape: z.ZodRawShape): z.ZodRawShape =>
  Object.fromEntries(Object.entries(shape).map(([name, field]) => [name, shown(field)]))

const shown = (field: z.core.$ZodType): z.core.$ZodType => {
  if (field instanceof z.ZodOptional) return z.optional(shown(field.unwrap()))
  return field instanceof z.ZodPipe ? field.out : field
}

/** Some models do not call a tool whose schema has no fields. */
const placeholder = z.object({ reason: prose("Optional reason").optional() })

/** Throws an Error that names every invalid argument and what it must be. */
export const readArguments = <Input extends z.ZodObject>(
  input: Input,
  args: unknown,
): z.output<Input> => {
  const given = withoutNulls(input, args)
  const first = input.safeParse(given)
  if (first.success) return first.data
  const second = input.safeParse(withParsedJson(given, first.error))
  if (second.success) return second.data
  const problems = first.error.issues.map(
    ({ path, message }) => `${path.join(".") || "the arguments"} ${message}`,
  )
  throw new Error(`${problems.join("; ")}. Correct this and call the tool again.`)
}

/** Models write null for an absent argument. A field that accepts null keeps it. */
const withoutNulls = ({ shape }: z.ZodObject, args: unknown): Record<string, unknown> => {
  if (typeof args !== "object" || args === null) return {}
  const acceptsNull = (name: string) => z.safeParse(shape[name] ?? z.never(), null).success
  return Object.fromEntries(
    Object.entries(args).filter(([name, value]) => value !== null || acceptsNull(name)),
  )
}

/** Models also write objects, lists and numbers as JSON text. */
const withParsedJson = (
  given: Readonly<Record<string, unknown>>,
  { issues }: z.ZodError,
): Record<string, unknown> => {
  const invalid = new Set(
    issues.flatMap(({ path: [field] }) => (field === undefined ? [] : [field])),
  )
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      invalid.has(name) && typeof value === "string" ? parseOrKeep(value) : value,
    ]),
  )
}

const parseOrKeep = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

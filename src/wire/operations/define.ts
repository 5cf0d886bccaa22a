/**
 * The vocabulary of the operations table: a request to the session agent, and an operation that a
 * tool may call. Everything that reads the table (API routes, wire types, tools, docs, the hub's
 * dispatch) reads these shapes.
 */
import { z } from "zod"

/**
 * One question on the wire: `{type, requestId, ...fields}`, answered by
 * `{type: "<type>-result", requestId, ...result}`, or by an `error` in place of the result.
 */
export interface WireRequest<
  Type extends string = string,
  Fields extends z.ZodObject = z.ZodObject,
  Result extends z.ZodObject = z.ZodObject,
> {
  readonly type: Type
  readonly fields: Fields
  readonly result: Result
  /** How long the session agent may take before the caller is told that it did not answer. */
  readonly deadlineMs: number
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE"

/**
 * Where an operation is carried out: asked of the session agent, told to it, or done in the
 * sandbox. The functions are methods because a row of the table has to pass as a plain `Operation`,
 * whose input is wider than the row's own; the builders below check each row by its exact types.
 */
export type Served<Input> =
  | {
      readonly by: "session"
      readonly request: WireRequest
      toFields(this: void, input: Input): Record<string, unknown>
      /** Only renames and picks: what the session agent left out is found missing by `output`. */
      toReply(this: void, result: Record<string, unknown>): unknown
      /** A frame that tells the session's watchers of the success. */
      readonly announce?: Announcement
    }
  | {
      readonly by: "frame"
      readonly frame: string
      toFields(this: void, input: Input): Record<string, unknown>
      readonly reply: Readonly<Record<string, unknown>>
    }
  | ServedBySandbox

interface ServedBySandbox {
  readonly by: "sandbox"
  readonly part: "tunnels" | "secrets"
}

export interface Announcement {
  readonly frame: string
  toFields(this: void, result: Record<string, unknown>): Record<string, unknown>
}

/** How the model is offered an operation; the arguments are the fields of its input, with their docs. */
export interface ToolRow<Reply = unknown> {
  /** Unique, snake_case; the tool's name in OpenCode. */
  readonly name: string
  /** What the model reads: what it does, when to use it, what comes of it. */
  readonly description: string
  render(this: void, reply: Reply): string
}

/** The tools of an operation, or why it has none. */
export type Tools<Reply = unknown> = readonly ToolRow<Reply>[] | { readonly none: string }

interface Route<Input extends z.ZodObject, Output extends z.ZodType, Name extends string> {
  /** Unique, kebab-case; also the name in logs and metrics. */
  readonly name: Name
  readonly method: Method
  /** Hono path below the gateway, `/api/...`; `:name` segments are fields of the input. */
  readonly path: `/api/${string}`
  readonly doc: string
  /** Path parameters, query and body in one object: a field has one name, wherever it travels. */
  readonly input: Input
  readonly output: Output
  readonly tools: Tools<NoInfer<z.output<Output>>>
}

export interface Operation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodType = z.ZodType,
  Name extends string = string,
> extends Route<Input, Output, Name> {
  readonly served: Served<z.output<Input>>
}

/** An operation that the sandbox carries out itself: its type selects it from the table. */
export interface SandboxOperation<
  Input extends z.ZodObject,
  Output extends z.ZodType,
  Name extends string,
> extends Route<Input, Output, Name> {
  readonly served: ServedBySandbox
}

/** Empty for an operation that the model is not offered by itself. */
export const toolsOf = ({ tools }: Pick<Operation, "tools">): readonly ToolRow[] =>
  "none" in tools ? [] : tools

export const wireRequest = <
  const Type extends string,
  Fields extends z.ZodRawShape,
  Result extends z.ZodRawShape,
>(
  type: Type,
  deadlineMs: number,
  fields: Fields,
  result: Result,
): WireRequest<Type, z.ZodObject<Fields>, z.ZodObject<Result>> => ({
  type,
  deadlineMs,
  fields: z.object(fields),
  result: z.object(result),
})

/** An operation that the session agent answers. */
export const sessionOperation = <
  Input extends z.ZodObject,
  Output extends z.ZodType,
  const Name extends string,
  Fields extends z.ZodObject,
  Result extends z.ZodObject,
>({
  request,
  toFields,
  toReply,
  announce,
  ...route
}: Route<Input, Output, Name> & {
  readonly request: WireRequest<string, Fields, Result>
  readonly toFields: (input: z.output<Input>) => NoInfer<z.output<Fields>>
  readonly toReply: (result: z.output<Result>) => NoInfer<z.input<Output>>
  readonly announce?: {
    readonly frame: string
    readonly toFields: (result: z.output<Result>) => Record<string, unknown>
  }
}): Operation<Input, Output, Name> => ({
  ...route,
  served: { by: "session", request, toFields, toReply, ...(announce && { announce }) },
})

/** An operation that only tells the session agent something: the reply is known beforehand. */
export const frameOperation = <
  Input extends z.ZodObject,
  Output extends z.ZodObject,
  const Name extends string,
>({
  frame,
  toFields,
  reply,
  ...route
}: Route<Input, Output, Name> & {
  readonly frame: string
  readonly toFields: (input: z.output<Input>) => Record<string, unknown>
  readonly reply: NoInfer<z.output<Output>>
}): Operation<Input, Output, Name> => ({
  ...route,
  served: { by: "frame", frame, toFields, reply },
})

/** An operation that the sandbox carries out by itself. */
export const sandboxOperation = <
  Input extends z.ZodObject,
  Output extends z.ZodType,
  const Name extends string,
>({
  part,
  ...route
}: Route<Input, Output, Name> & {
  readonly part: "tunnels" | "secrets"
}): SandboxOperation<Input, Output, Name> => ({ ...route, served: { by: "sandbox", part } })

/** For a row whose fields or reply travel under the names they already have. */
export const same = <Value>(value: Value): Value => value

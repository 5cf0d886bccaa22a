/**
 * The types of the operations table: a wire request to the session agent, and an operation that a tool may call. API
 * routes, frame types, tools, docs and the hub's handlers are all derived from them.
 */
import { z } from "zod"

/**
 * A request frame `{type, requestId, ...fields}`. The response frame is `{type: "<type>-result", requestId, ...result}`,
 * or has `error` in place of the result.
 */
export interface WireRequest<
  Type extends string = string,
  Fields extends z.ZodObject = z.ZodObject,
  Result extends z.ZodObject = z.ZodObject,
> {
  readonly type: Type
  readonly fields: Fields
  readonly result: Result
  /** After this time the caller gets a timeout. */
  readonly deadlineMs: number
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE"

/**
 * Who carries out an operation: the session agent by a request, the session agent by a one-way frame, or the sandbox.
 * The functions are methods because each row must be assignable to a plain `Operation`, whose input type is wider; the
 * builders below check each row with its exact types.
 */
export type Served<Input> =
  | {
      readonly by: "session"
      readonly request: WireRequest
      toFields(this: void, input: Input): Record<string, unknown>
      /** Only renames and picks fields. `output` then rejects a result with missing fields. */
      toReply(this: void, result: Record<string, unknown>): unknown
      /** A frame sent after success, for the clients that watch the session. */
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
}

export interface Announcement {
  readonly frame: string
  toFields(this: void, result: Record<string, unknown>): Record<string, unknown>
}

/** How an operation is offered to the model. The arguments are the fields of its input with their descriptions. */
export interface ToolRow<Reply = unknown> {
  /** Unique, snake_case; the tool's name in OpenCode. */
  readonly name: string
  /** Read by the model in every request: what the tool does and when to use it, in few words. */
  readonly description: string
  render(this: void, reply: Reply): string
}

/** The tools of an operation, or the reason why it has none. */
export type Tools<Reply = unknown> = readonly ToolRow<Reply>[] | { readonly none: string }

interface Route<Input extends z.ZodObject, Output extends z.ZodType, Name extends string> {
  /** Unique, kebab-case; also the name in logs and metrics. */
  readonly name: Name
  readonly method: Method
  /** Hono path on the gateway; `:name` segments are fields of the input. */
  readonly path: `/api/${string}`
  readonly doc: string
  /** Path parameters, query and body as one object. */
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

/** An operation that the session agent carries out and answers. */
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

/** An operation that sends one frame to the session agent and waits for no response, so the reply is fixed. */
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

/** An operation that the runner carries out inside the sandbox. */
export const sandboxOperation = <
  Input extends z.ZodObject,
  Output extends z.ZodType,
  const Name extends string,
>(
  route: Route<Input, Output, Name>,
): SandboxOperation<Input, Output, Name> => ({ ...route, served: { by: "sandbox" } })

/** For a row whose fields or reply keep their names. */
export const unchanged = <Value>(value: Value): Value => value

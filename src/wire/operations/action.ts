/** Requests that carry an action and a payload under one wire type, and the operations that use them. */
import { z } from "zod"
import { type Operation, type WireRequest, wireRequest } from "./define.ts"
import { entity } from "./fields.ts"

export const actionRequest = <
  const Type extends string,
  const Actions extends readonly [string, ...string[]],
>(
  type: Type,
  actions: Actions,
) =>
  wireRequest(
    type,
    15_000,
    { action: z.enum(actions), payload: entity.optional() },
    { data: z.unknown() },
  )

type ActionRequest<Action extends string> = WireRequest<
  string,
  z.ZodObject<{ action: z.ZodType<Action>; payload: z.ZodOptional<typeof entity> }>,
  z.ZodObject<{ data: z.ZodUnknown }>
>

/** The reply is the `data` of the result. The caller checks it against `output`. */
export const actionOperation = <
  Input extends z.ZodObject,
  Output extends z.ZodType,
  const Name extends string,
  Action extends string,
>({
  request,
  action,
  toPayload,
  ...route
}: Omit<Operation<Input, Output, Name>, "served"> & {
  readonly request: ActionRequest<Action>
  readonly action: NoInfer<Action>
  readonly toPayload: (input: z.output<Input>) => Record<string, unknown>
}): Operation<Input, Output, Name> => ({
  ...route,
  served: {
    by: "session",
    request,
    toFields: (input) => ({ action, payload: toPayload(input) }),
    toReply: ({ data }) => data,
  },
})

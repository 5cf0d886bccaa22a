/** A successful sample result for every request, from the samples of the operations. */
import { operations } from "../../src/wire/operations/index.ts"
import type { RequestFrame } from "../../src/wire/frames/index.ts"
import { sampleOf } from "../wire/operations/samples.ts"

const keyOf = (type: string, action: unknown): string =>
  typeof action === "string" ? `${type} ${action}` : type

const results: ReadonlyMap<string, Readonly<Record<string, unknown>> | undefined> = new Map(
  operations.flatMap(({ name, served, input }) => {
    if (served.by !== "session") return []
    const { input: given, result } = sampleOf(name)
    const { action } = served.toFields(input.parse(given))
    return [[keyOf(served.request.type, action), result]]
  }),
)

export const sampleAnswer = (
  request: RequestFrame,
): Readonly<Record<string, unknown>> | undefined =>
  results.get(keyOf(request.type, "action" in request ? request.action : undefined))

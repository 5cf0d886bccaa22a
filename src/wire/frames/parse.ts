/** Parses one frame with the schema of its type. Never throws, and `problem` never contains a value, which may be a secret. */
import { isWithinJsonLimits, parseJson } from "../json-limits.ts"
import type { z } from "zod"

/** Longer ids and paths are kept out of logs. */
const MAX_ID_CHARACTERS = 200

/** A frame, or the reason why it is invalid. The ids allow a response to a malformed request. */
export type Parsed<Frame> =
  | { readonly ok: true; readonly frame: Frame }
  | {
      readonly ok: false
      /** Field and reason. */
      readonly problem: string
      readonly type?: string
      readonly requestId?: string
      readonly messageId?: string
    }

/** One look-up by type instead of a union: the cost does not grow with the number of types. */
export const frameParser =
  <Frame>(schemas: ReadonlyMap<string, z.ZodType<Frame>>) =>
  (text: string): Parsed<Frame> => {
    if (!isWithinJsonLimits(text)) return { ok: false, problem: "too many or too deep values" }
    const value = parseJson(text)
    if (value === undefined) return { ok: false, problem: "not JSON" }
    if (!isObject(value)) return { ok: false, problem: "not an object" }
    if (typeof value["type"] !== "string") {
      return { ok: false, problem: "type: must be a string" }
    }
    const schema = schemas.get(value["type"])
    if (schema === undefined) return { ok: false, problem: "unknown type", ...idsOf(value) }
    const parsed = parseTolerantly(schema, value)
    if (parsed.success) return { ok: true, frame: parsed.data }
    return { ok: false, problem: describe(parsed.error.issues), ...idsOf(value) }
  }

/**
 * Peers send `null` for an absent field. A null that its schema rejects is removed and the frame is parsed again: an
 * optional field then counts as absent, a required one is reported as missing. A null that the schema accepts stays.
 */
function parseTolerantly<Frame>(schema: z.ZodType<Frame>, value: unknown) {
  let parsed = schema.safeParse(value)
  while (!parsed.success && dropNulls(value, parsed.error.issues)) parsed = schema.safeParse(value)
  return parsed
}

function dropNulls(value: unknown, issues: readonly z.core.$ZodIssue[]): boolean {
  let dropped = false
  for (const { path } of issues) {
    const key = path.at(-1)
    const parent = path.slice(0, -1).reduce(childOf, value)
    if (typeof key !== "string" || !isObject(parent) || parent[key] !== null) continue
    delete parent[key]
    dropped = true
  }
  return dropped
}

function childOf(parent: unknown, key: PropertyKey): unknown {
  if (Array.isArray(parent)) return parent[Number(key)]
  return isObject(parent) ? parent[String(key)] : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** Zod's messages contain the expected and the received type, not the received value. */
function describe(issues: readonly z.core.$ZodIssue[]): string {
  const [first, ...others] = issues
  if (first === undefined) return "malformed"
  const where = first.path.join(".").slice(0, MAX_ID_CHARACTERS)
  const what = first.message.replace(/^Invalid input: /, "")
  return `${where}: ${what}${others.length === 0 ? "" : ` (and ${others.length} more)`}`
}

function idsOf(value: Record<string, unknown>) {
  const { type, requestId, messageId } = value
  return {
    ...(isShort(type) && { type }),
    ...(isShort(requestId) && { requestId }),
    ...(isShort(messageId) && { messageId }),
  }
}

function isShort(value: unknown): value is string {
  return typeof value === "string" && value.length <= MAX_ID_CHARACTERS
}

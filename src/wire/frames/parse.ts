/** Reads one frame against a table of schemas; never throws and never repeats what it read. */
import type { z } from "zod"

/** What is longer is not an id or a path worth a line in a log. */
const LONGEST_ID = 200

/** A frame, or why it is none. With the ids a malformed question still gets its one answer. */
export type Parsed<Frame> =
  | { readonly ok: true; readonly frame: Frame }
  | {
      readonly ok: false
      /** What is wrong and where; never a value, for it may be a secret. */
      readonly problem: string
      readonly type?: string
      readonly requestId?: string
      readonly messageId?: string
    }

/** One look-up by type and one schema per frame, however many types there are. */
export const frameParser =
  <Frame>(schemas: ReadonlyMap<string, z.ZodType<Frame>>) =>
  (text: string): Parsed<Frame> => {
    const value = fromJson(text)
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

/** Not JSON is `undefined`, which no JSON text stands for. */
function fromJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Peers write `null` for a field they have nothing for. A null that its schema refuses is taken out
 * and the rest is read again, so that an optional field counts as absent and a required one is
 * reported as missing; a null that has a meaning, as in an open payload, stays.
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

/** Zod's messages name what was expected and the kind of what came, not what came. */
function describe(issues: readonly z.core.$ZodIssue[]): string {
  const [first, ...others] = issues
  if (first === undefined) return "malformed"
  const where = first.path.join(".").slice(0, LONGEST_ID)
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
  return typeof value === "string" && value.length <= LONGEST_ID
}

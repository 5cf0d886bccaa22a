/** Field types for the input of operations. Each error message states what the value must be, for the model to correct. */
import { z } from "zod"

/** Text that must not be empty: an id, a name, a message. */
export const text = (doc: string) =>
  z
    .string({ error: mustBe("text") })
    .min(1, "must not be empty")
    .describe(doc)

/** Text that may be empty: a body, a note, a result. */
export const prose = (doc: string) => z.string({ error: mustBe("text") }).describe(doc)

interface Bounds {
  readonly min: number
  readonly max?: number
}

export const wholeNumber = (doc: string, { min, max = Number.MAX_SAFE_INTEGER }: Bounds) => {
  const error = mustBe(
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, ${min} or more`
      : `a whole number from ${min} to ${max}`,
  )
  return z.int({ error }).min(min, { error }).max(max, { error }).describe(doc)
}

/** A whole number that may arrive as text in a query string. */
export const queryNumber = (doc: string, bounds: Bounds) =>
  z.preprocess(
    (value) => (typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value),
    wholeNumber(doc, bounds),
  )

export const flag = (doc: string) => z.boolean({ error: mustBe("true or false") }).describe(doc)

/** A boolean that may arrive as text in a query string. */
export const queryFlag = (doc: string) =>
  z.preprocess(
    (value) => (typeof value === "string" ? (flagTexts.get(value) ?? value) : value),
    flag(doc),
  )

export const oneOf = <const Values extends readonly [string, ...string[]]>(
  doc: string,
  values: Values,
) => z.enum(values, { error: mustBe(`one of ${values.join(", ")}`) }).describe(doc)

export const texts = (doc: string) =>
  z
    .array(z.string({ error: mustBe("text") }).min(1, "must not be empty"), {
      error: mustBe("a list of texts"),
    })
    .describe(doc)

/** An object with any fields. */
export const openObject = (doc: string) =>
  z.record(z.string(), z.unknown(), { error: mustBe("an object") }).describe(doc)

/** An object of the session agent, passed on unchanged. */
export const entity = z.record(z.string(), z.unknown())

export const success = z.object({ success: z.boolean() })

export const ok = z.object({ ok: z.boolean() })

export const noInput = z.object({})

/** True when both values are present or both are absent. */
export const bothOrNeither = (one: unknown, other: unknown): boolean =>
  (one === undefined) === (other === undefined)

const flagTexts: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
])

function mustBe(what: string) {
  return ({ input }: { readonly input?: unknown }): string =>
    input === undefined ? `is required and must be ${what}` : `must be ${what}`
}

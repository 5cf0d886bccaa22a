/** JSON text with a schema. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { z } from "zod"
import { jsonColumn, optionalJsonColumn, parseJson, readJson } from "../../src/lib/json.ts"

const point = z.object({ x: z.number(), y: z.number().optional() })

describe("parseJson", () => {
  test("every JSON value is read back as it was written", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value)
        expect(JSON.stringify(parseJson(text))).toBe(text)
      }),
    )
  })

  test("text that is not JSON is undefined", () => {
    for (const text of ["", "{", "undefined", "{'a':1}", "1 2"]) {
      expect(parseJson(text)).toBeUndefined()
    }
  })
})

describe("readJson", () => {
  test("a stored value is read with the type of its schema", () => {
    expect(readJson(point, '{"x":1}')).toEqual({ x: 1 })
    expect(readJson(z.unknown(), "[null]")).toEqual([null])
  })

  test("a mismatch throws an error that names the field and not the value", () => {
    expect(() => readJson(point, '{"x":"sk-secret"}')).toThrow(
      "stored JSON does not match its schema: x: expected number, received string",
    )
    expect(() => readJson(point, '{"x":"sk-secret"}')).not.toThrow("sk-secret")
  })

  test("text that is not JSON throws", () => {
    expect(() => readJson(point, "{")).toThrow("stored JSON does not match its schema")
  })
})

describe("jsonColumn", () => {
  const row = z.object({
    id: z.string(),
    place: jsonColumn(point),
    extra: optionalJsonColumn(z.unknown()),
  })

  test("JSON columns are parsed together with their row", () => {
    expect(row.parse({ id: "a", place: '{"x":1,"y":2}', extra: null })).toEqual({
      id: "a",
      place: { x: 1, y: 2 },
      extra: undefined,
    })
  })

  test("NULL is undefined and the JSON null is null", () => {
    const extra = (value: string | null) =>
      row.parse({ id: "a", place: '{"x":1}', extra: value }).extra
    expect(extra(null)).toBeUndefined()
    expect(extra("null")).toBeNull()
    expect(extra("[1]")).toEqual([1])
  })

  test("a column that is not JSON and a column of another shape are both refused", () => {
    expect(row.safeParse({ id: "a", place: "{", extra: null }).success).toBeFalse()
    expect(row.safeParse({ id: "a", place: '{"y":2}', extra: null }).success).toBeFalse()
    expect(row.safeParse({ id: "a", place: '{"x":2}', extra: "nope" }).success).toBeFalse()
  })
})

/** Values that are set after their readers were created. */
import { expect, test } from "bun:test"
import { createLate } from "../../src/lib/late.ts"

test("a late value is readable after it was set", () => {
  const late = createLate<number>("the port")
  late.set(9000)
  expect(late.get()).toBe(9000)
})

test("reading a late value before it was set throws an error with its name", () => {
  expect(createLate<number>("the port").get).toThrow("the port: read before it was set")
})

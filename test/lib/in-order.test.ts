/** Asynchronous work in the order of its calls. */
import { expect, test } from "bun:test"
import { createInOrder } from "../../src/lib/in-order.ts"

test("work starts only after the work before it has ended, also if that has failed", async () => {
  const run = createInOrder()
  const gate = Promise.withResolvers<void>()
  const seen: string[] = []
  const first = run(async () => {
    seen.push("first starts")
    await gate.promise
    throw new Error("first fails")
  })
  const second = run(async () => {
    seen.push("second starts")
    return 2
  })
  await Promise.resolve()
  expect(seen).toEqual(["first starts"])
  gate.resolve()
  expect(await first.then(String, String)).toBe("Error: first fails")
  expect(await second).toBe(2)
  expect(seen).toEqual(["first starts", "second starts"])
})

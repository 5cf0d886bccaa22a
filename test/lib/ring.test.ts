/** The ring of the last lines. */
import { expect, test } from "bun:test"
import { createRing } from "../../src/lib/ring.ts"

test("the ring keeps the newest lines in order", () => {
  const ring = createRing({ lines: 3, lineLength: 10 })
  expect(ring.read()).toEqual([])
  for (const line of ["a", "b"]) ring.push(line)
  expect(ring.read()).toEqual(["a", "b"])
  for (const line of ["c", "d", "e"]) ring.push(line)
  expect(ring.read()).toEqual(["c", "d", "e"])
  expect(ring.read(2)).toEqual(["d", "e"])
})

test("the ring cuts a line that is too long", () => {
  const ring = createRing({ lines: 3, lineLength: 4 })
  ring.push("abcdefgh")
  expect(ring.read()).toEqual(["abcd…"])
})

import { expect, test } from "bun:test"
import { readBootId } from "../../../src/runner/host/boot-id.ts"

test("the machine's boot has a name that stays", () => {
  expect(readBootId()).toMatch(/^[0-9a-f-]{36}$/)
  expect(readBootId()).toBe(readBootId())
})

test("a machine that does not tell has none", () => {
  expect(readBootId("/no/such/file")).toBe("")
})

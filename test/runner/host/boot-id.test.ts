import { expect, test } from "bun:test"
import { readBootId } from "../../../src/runner/host/boot-id.ts"

test("the boot id is the same on every read", () => {
  expect(readBootId()).toMatch(/^[0-9a-f-]{36}$/)
  expect(readBootId()).toBe(readBootId())
})

test("the boot id is empty if the kernel provides none", () => {
  expect(readBootId("/no/such/file")).toBe("")
})

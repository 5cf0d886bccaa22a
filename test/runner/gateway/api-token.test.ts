import { expect, test } from "bun:test"
import { bootToken } from "../../../src/runner/gateway/api-token.ts"

const createMemory = () => {
  let text: string | undefined
  return {
    read: () => text,
    write: (next: string) => {
      text = next
    },
  }
}

test("the API token is the same for every runner of one boot", () => {
  const memory = createMemory()
  const first = bootToken("boot-1", memory)
  expect(first).toMatch(/^[0-9a-f]{64}$/)
  expect(bootToken("boot-1", memory)).toBe(first)
})

test("the API token changes with the next boot", () => {
  const memory = createMemory()
  const first = bootToken("boot-1", memory)
  expect(bootToken("boot-2", memory)).not.toBe(first)
})

test("the API token is new every time if boots cannot be told apart", () => {
  const memory = createMemory()
  expect(bootToken("", memory)).not.toBe(bootToken("", memory))
})

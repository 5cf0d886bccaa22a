/** Where `serve` gets the operator's token from. */
import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readOperatorToken } from "../../src/cli/operator-token.ts"

const root = mkdtempSync(join(tmpdir(), "operator-token-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const stateDir = (name: string): string => {
  mkdirSync(join(root, name, "fleet"), { recursive: true })
  return join(root, name)
}
const fileWith = (content: string): string => {
  const file = join(root, crypto.randomUUID())
  writeFileSync(file, content)
  return file
}

test("two machines with the same token file have the same token, and none of their own", () => {
  const token = "a-token-of-the-operator-for-tests"
  const file = fileWith(`${token}\n`)
  expect(readOperatorToken(stateDir("one"), file)).toBe(token)
  expect(readOperatorToken(stateDir("two"), file)).toBe(token)
  expect(readdirSync(join(root, "one", "fleet"))).toEqual([])
})

test("without a token file each state directory has a random token that stays", () => {
  const first = readOperatorToken(stateDir("three"), undefined)
  expect(first.length).toBeGreaterThanOrEqual(32)
  expect(readOperatorToken(stateDir("three"), undefined)).toBe(first)
  expect(readOperatorToken(stateDir("four"), undefined)).not.toBe(first)
})

test("a token file that is missing, short or has spaces is refused, and the error does not show its content", () => {
  const refusal = (file: string): string => {
    try {
      return readOperatorToken(stateDir("five"), file)
    } catch (error) {
      return String(error)
    }
  }
  expect(refusal(join(root, "none"))).toContain("none cannot be read")
  for (const content of ["short-token", "", "thirty-two characters with spaces in it"]) {
    expect(refusal(fileWith(content))).toContain("at least 32")
    expect(refusal(fileWith(content))).not.toContain("short-token")
    expect(refusal(fileWith(content))).not.toContain("thirty-two")
  }
})

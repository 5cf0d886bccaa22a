/** Each owner's calls of the git host use its own token. */
import { expect, test } from "bun:test"
import { gitTokenOf } from "../../../src/hub/handlers/git-tokens.ts"

const environment = {
  GITHUB_TOKEN: "of-the-operator",
  GITHUB_TOKENS: JSON.stringify({ "user:alice": "of-alice", "org:acme": "of-acme" }),
}

test("the operator's token serves the operator's own sessions only", () => {
  expect(gitTokenOf(environment, "user:local")).toBe("of-the-operator")
  expect(gitTokenOf(environment, "user:bob")).toBeUndefined()
  expect(gitTokenOf({ GH_TOKEN: "t" }, "user:local")).toBe("t")
})

test("an owner with an entry has its own token", () => {
  expect(gitTokenOf(environment, "user:alice")).toBe("of-alice")
  expect(gitTokenOf(environment, "org:acme")).toBe("of-acme")
})

test.each(["not json", "[]", '{"user:bob": 7}', '"text"'])(
  "GITHUB_TOKENS with the content %s gives no other owner a token",
  (GITHUB_TOKENS) => {
    expect(gitTokenOf({ ...environment, GITHUB_TOKENS }, "user:bob")).toBeUndefined()
    expect(gitTokenOf({ ...environment, GITHUB_TOKENS }, "user:local")).toBe("of-the-operator")
  },
)

test("a name of an owner that is also a name of every object has no token", () => {
  expect(gitTokenOf(environment, "user:__proto__")).toBeUndefined()
})

/** The repository that the runner names in requests about a git host. */
import { expect, test } from "bun:test"
import { checkoutFields } from "../../../src/runner/sandbox/checkout-fields.ts"

const originIs = (url: string) => checkoutFields(() => Promise.resolve(`${url}\n`))

test.each([
  ["git@github.com:birds/heron.git", "birds/heron"],
  ["https://user:password@github.com/birds/heron", "birds/heron"],
  ["ssh://git@github.com/birds/heron.git/", "birds/heron"],
])("the origin %s is sent as owner and name only", async (origin, checkout) => {
  expect(await originIs(origin)("create-pr")).toEqual({ checkout })
})

test("a request that is not about a repository, and a checkout without an origin, have no such field", async () => {
  expect(await originIs("git@github.com:birds/heron.git")("memory-read")).toEqual({})
  const noOrigin = checkoutFields(() => Promise.reject(new Error("no such remote")))
  expect(await noOrigin("create-pr")).toEqual({})
})

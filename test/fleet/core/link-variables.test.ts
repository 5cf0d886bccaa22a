/** Which variables of an owner reach a sandbox that runs already, and which of them keep it from using the warm pool. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { divideVariables, type OwnSources } from "../../../src/fleet/core/link-variables.ts"
import { fitOf, poolKeyOf } from "../../../src/fleet/core/pool.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import { parseInbound } from "../../../src/wire/frames/index.ts"

const sources = (own: Partial<OwnSources> = {}): OwnSources => ({
  providerKeys: { ANTHROPIC_API_KEY: "sk-of-all" },
  credentials: {},
  github: {},
  ...own,
})

/** Names that travel, names that do not, and values that the frame refuses. */
const names = [
  "GITHUB_TOKEN",
  "GIT_USER_NAME",
  "GIT_USER_EMAIL",
  "GIT_AUTHOR_NAME",
  "OP_SERVICE_ACCOUNT_TOKEN",
  "ANTHROPIC_API_KEY",
  "toString",
]
const values = ["a", "b", "", "two words", "line\nbreak", "x".repeat(5000)]
const variables = fc.dictionary(fc.constantFrom(...names), fc.constantFrom(...values), {
  maxKeys: 4,
})
const anySources: fc.Arbitrary<OwnSources> = fc.record({
  providerKeys: variables,
  credentials: variables,
  github: variables,
})
const environmentOf = ({ providerKeys, credentials, github }: OwnSources) => ({
  ...providerKeys,
  ...credentials,
  ...github,
})

describe("what travels", () => {
  test("the token and the author of git travel, the rest is fixed at the start", () => {
    const github = {
      GITHUB_TOKEN: "ghp_of_alice",
      GIT_USER_NAME: "Alice",
      GIT_USER_EMAIL: "alice@example.com",
      GIT_AUTHOR_NAME: "Alice",
    }
    const credentials = { OP_SERVICE_ACCOUNT_TOKEN: "ops" }
    expect(divideVariables(sources({ credentials, github }))).toEqual({
      git: { token: "ghp_of_alice", userName: "Alice", userEmail: "alice@example.com" },
      fixed: {
        ANTHROPIC_API_KEY: "sk-of-all",
        OP_SERVICE_ACCOUNT_TOKEN: "ops",
        GIT_AUTHOR_NAME: "Alice",
      },
    })
  })

  test("what travels is always a frame that a runner accepts, and no variable is lost", () => {
    fc.assert(
      fc.property(anySources, (own) => {
        const { git, fixed } = divideVariables(own)
        expect(parseInbound(JSON.stringify({ type: "git-credentials", ...git })).ok).toBe(true)
        const asVariables = {
          ...(git.token !== undefined && { GITHUB_TOKEN: git.token }),
          ...(git.userName !== undefined && { GIT_USER_NAME: git.userName }),
          ...(git.userEmail !== undefined && { GIT_USER_EMAIL: git.userEmail }),
        }
        expect({ ...fixed, ...asVariables }).toEqual(environmentOf(own))
      }),
      { numRuns: 1000 },
    )
  })
})

describe("who can have a sandbox of the pool", () => {
  test("an owner whose token travels needs a runner that takes it, an owner without one needs any", () => {
    const pool = sources()
    expect(fitOf(pool, sources())).toBe("any")
    expect(fitOf(pool, sources({ github: { GITHUB_TOKEN: "ghp_a" } }))).toBe("takes-credentials")
    expect(fitOf(pool, sources({ github: { GITHUB_TOKEN: "two lines\n" } }))).toBe("none")
    expect(fitOf(pool, sources({ credentials: { OP_SERVICE_ACCOUNT_TOKEN: "ops" } }))).toBe("none")
    expect(fitOf(pool, sources({ providerKeys: { ANTHROPIC_API_KEY: "sk-own" } }))).toBe("none")
    expect(fitOf(pool, sources({ github: { GIT_AUTHOR_NAME: "Alice" } }))).toBe("none")
  })

  test("a pool that was started with a token serves no owner", () => {
    const pool = sources({ github: { GITHUB_TOKEN: "ghp_of_the_pool" } })
    expect(fitOf(pool, sources())).toBe("none")
    expect(fitOf(pool, pool)).toBe("none")
  })

  test("two owners that differ in a variable that cannot travel never have the same key, and then neither fits the other", () => {
    fc.assert(
      fc.property(anySources, anySources, (one, other) => {
        const fixed = [one, other].map((own) => divideVariables(own).fixed)
        const differ = !Bun.deepEquals(fixed[0], fixed[1])
        const keys = [one, other].map((own) => poolKeyOf("v1", own, digestOf))
        expect(keys[0] !== keys[1]).toBe(differ)
        if (differ) expect(fitOf(one, other)).toBe("none")
      }),
      { numRuns: 1000 },
    )
  })

  test("an owner that fits has in a sandbox of the pool exactly the variables of one that is started for it", () => {
    fc.assert(
      fc.property(anySources, variables, (pool, more) => {
        const owner = { ...pool, github: { ...pool.github, ...more } }
        if (fitOf(pool, owner) === "none") return
        const { git } = divideVariables(owner)
        const sent = {
          ...(git.token !== undefined && { GITHUB_TOKEN: git.token }),
          ...(git.userName !== undefined && { GIT_USER_NAME: git.userName }),
          ...(git.userEmail !== undefined && { GIT_USER_EMAIL: git.userEmail }),
        }
        expect({ ...environmentOf(pool), ...sent }).toEqual(environmentOf(owner))
      }),
      { numRuns: 1000 },
    )
  })
})

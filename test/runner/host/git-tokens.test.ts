/** Passwords for git and `gh`: from the settings, or short-lived tokens that are replaced before they expire. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createGitTokens, isFresh, REFRESH_BEFORE_MS } from "../../../src/runner/host/git-tokens.ts"
import { createManualClock } from "../../kit/clock.ts"
import { silentLog } from "../../kit/log.ts"

const HOUR_MS = 60 * 60_000
const GITHUB = "https://github.com"
const ask = { protocol: "https", host: "GitHub.com" }

const start = ({
  lifeMs = HOUR_MS,
  fails = () => false,
}: { lifeMs?: number; fails?: () => boolean } = {}) => {
  const clock = createManualClock(1_000_000)
  const asked: string[] = []
  const hidden: string[] = []
  const tokens = createGitTokens({
    credentials: () => [{ origin: "https://git.example", username: "me", password: "static" }],
    issuedFor: () => [GITHUB],
    issue: async (origin) => {
      asked.push(origin)
      if (fails()) throw new Error("the session agent is away")
      return { token: `token-${asked.length}`, expiresAt: clock.now() + lifeMs }
    },
    clock,
    log: { ...silentLog, hide: (more) => void hidden.push(...more) },
  })
  const password = async () => (await tokens.credentialFor(ask))?.password
  return { clock, asked, hidden, tokens, password }
}

describe("short-lived tokens for git", () => {
  test("a token is asked for on demand, kept in memory and replaced ten minutes before it expires", async () => {
    const { clock, asked, hidden, password } = start()
    expect(asked).toEqual([])
    expect(await password()).toBe("token-1")
    clock.advance(HOUR_MS - REFRESH_BEFORE_MS - 1)
    expect(await password()).toBe("token-1")
    clock.advance(1)
    expect(await password()).toBe("token-2")
    expect(asked).toEqual([GITHUB, GITHUB])
    expect(hidden).toEqual(["token-1", "token-2"])
  })

  test("programs that ask at the same time share one request", async () => {
    const { asked, password } = start()
    expect(await Promise.all([password(), password(), password()])).toEqual([
      "token-1",
      "token-1",
      "token-1",
    ])
    expect(asked).toHaveLength(1)
  })

  test("when no new token can be issued the last one serves until it expires, and then none", async () => {
    let isAway = false
    const { clock, password } = start({ fails: () => isAway })
    expect(await password()).toBe("token-1")
    isAway = true
    clock.advance(HOUR_MS - 1)
    expect(await password()).toBe("token-1")
    clock.advance(1)
    expect(await password()).toBeUndefined()
    isAway = false
    expect(await password()).toBe("token-4")
  })

  test("a token that has expired on arrival is not given out", async () => {
    const { password } = start({ lifeMs: 0 })
    expect(await password()).toBeUndefined()
  })

  test("settings take precedence, and other origins are never asked for", async () => {
    const { asked, tokens } = start()
    const own = await tokens.credentialFor({ protocol: "https", host: "git.example" })
    expect(own).toMatchObject({ username: "me", password: "static" })
    for (const host of ["evil.example", "github.com.evil.example", "github.com:444"])
      expect(await tokens.credentialFor({ protocol: "https", host })).toBeUndefined()
    expect(await tokens.credentialFor({ protocol: "http", host: "github.com" })).toBeUndefined()
    expect(asked).toEqual([])
  })

  test("a fresh token has at least ten minutes left, or half of a shorter life", () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 10 * HOUR_MS }),
        fc.nat({ max: 10 * HOUR_MS }),
        (lifeMs, passedMs) => {
          if (!isFresh(passedMs, 0, lifeMs)) return
          expect(lifeMs - passedMs).toBeGreaterThan(Math.min(REFRESH_BEFORE_MS, lifeMs / 2) - 1)
          expect(passedMs).toBeLessThan(lifeMs)
        },
      ),
    )
  })
})

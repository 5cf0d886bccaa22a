/** Limits per owner: the token bucket of prompts, sessions, bytes. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Bucket,
  checkBytes,
  checkSessions,
  defaultLimits,
  takePrompt,
} from "../../../src/hub/access/limits.ts"

const seed = Date.now() % 2 ** 31
const limits = { ...defaultLimits, promptsPerMinute: 6, sessions: 2, bytes: 100 }

describe("prompts per minute", () => {
  test("a minute's worth of prompts may come at once, and the next one waits", () => {
    let bucket: Bucket | undefined
    for (let index = 0; index < 6; index += 1) {
      const taken = takePrompt(bucket, limits, 1000)
      expect(taken.ok).toBeTrue()
      bucket = taken.bucket
    }
    expect(takePrompt(bucket, limits, 1000)).toMatchObject({
      ok: false,
      retryAfterSeconds: 10,
      sentence: "The limit of 6 prompts per minute is reached: try again in 10 s.",
    })
  })
  test("a limit of 0 refuses every prompt", () => {
    expect(takePrompt(undefined, { ...limits, promptsPerMinute: 0 }, 0)).toMatchObject({
      ok: false,
      retryAfterSeconds: 60,
    })
  })
  test("a clock that goes back adds no prompts", () => {
    const empty = { tokens: 0, at: 100_000 }
    const back = takePrompt(empty, limits, 0)
    expect(back.ok).toBeFalse()
    expect(takePrompt(back.bucket, limits, 100_000).ok).toBeFalse()
  })
  const steps = fc.array(fc.nat(20_000), { minLength: 1, maxLength: 200 })

  test(`no span of time lets more prompts through than burst plus rate (seed ${seed})`, () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 50 }), (pauses, promptsPerMinute) => {
        const own = { ...limits, promptsPerMinute }
        let bucket: Bucket | undefined
        let now = 0
        const taken: number[] = []
        for (const pause of pauses) {
          now += pause
          const result = takePrompt(bucket, own, now)
          bucket = result.bucket
          if (result.ok) taken.push(now)
        }
        return taken.every((start, first) =>
          taken.slice(first).every((end, index) => {
            const most = promptsPerMinute + ((end - start) / 60_000) * promptsPerMinute
            return index + 1 <= most + 1e-6
          }),
        )
      }),
      { seed },
    )
  })
  test(`a refused prompt is accepted after the time it was told to wait (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.integer({ min: 1, max: 600 }),
        (tokens, promptsPerMinute) => {
          const own = { ...limits, promptsPerMinute }
          const refused = takePrompt({ tokens, at: 0 }, own, 0)
          if (refused.ok) return false
          return takePrompt(refused.bucket, own, refused.retryAfterSeconds * 1000).ok
        },
      ),
      { seed },
    )
  })
})

describe("sessions and bytes of an owner", () => {
  test("a session is refused when the limit is reached", () => {
    expect(checkSessions(1, limits)).toEqual({ ok: true })
    expect(checkSessions(2, limits)).toEqual({
      ok: false,
      retryAfterSeconds: 60,
      sentence: "The limit of 2 sessions is reached: end a session first.",
    })
  })
  test("bytes are refused when they would pass the limit", () => {
    expect(checkBytes(60, 40, limits)).toEqual({ ok: true })
    expect(checkBytes(60, 41, limits)).toMatchObject({
      ok: false,
      sentence: "The limit of 100 stored bytes is reached: delete a session first.",
    })
  })
})

/** When a failed message to a chat service is sent again. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { CHAT_LIMITS } from "../../../src/hub/session/chat-sends.ts"
import { SendError } from "../../../src/hub/session/chat-services.ts"
import { afterFailure } from "../../../src/hub/session/deliveries.ts"

interface Failure {
  readonly attempts: number
  readonly retryable: boolean
  readonly retryAfterMs?: number | undefined
}

const retryInMs = ({ attempts, ...hints }: Failure, random: number) =>
  afterFailure(CHAT_LIMITS, { attempts, error: new SendError("down", hints), now: 0, random })

const HOUR = 60 * 60 * 1000
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test("every message is given up after a bounded number of attempts, and no wait is shorter than the service asks for", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 50 }),
      fc.option(fc.integer({ min: 0, max: 2 * HOUR }), { nil: undefined }),
      random,
      (attempts, retryAfterMs, jitter) => {
        const wait = retryInMs({ attempts, retryable: true, retryAfterMs }, jitter)
        if (attempts >= CHAT_LIMITS.maxAttempts || (retryAfterMs ?? 0) > HOUR)
          return wait === undefined
        return wait !== undefined && wait >= Math.max(500, retryAfterMs ?? 0) && wait <= HOUR
      },
    ),
  )
})

test("a permanent failure is not retried", () => {
  expect(retryInMs({ attempts: 1, retryable: false }, 0.5)).toBeUndefined()
})

test("the wait grows with every attempt", () => {
  const waits = [1, 2, 3, 4].map((attempts) => retryInMs({ attempts, retryable: true }, 0) ?? 0)
  expect(waits).toEqual(waits.toSorted((a, b) => a - b))
  expect(waits[3]).toBeGreaterThan(waits[0] ?? 0)
})

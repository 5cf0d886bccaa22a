/** The wait for a process that was just started. */
import { expect, test } from "bun:test"
import { createAgentClient } from "../../../../src/runner/opencode/client/client.ts"
import { type HealthWait, waitForHealth } from "../../../../src/runner/opencode/launch/health.ts"
import { systemClock } from "../../../../src/lib/clock.ts"
import { createManualClock, type ManualClock } from "../../../kit/clock.ts"
import { failureOf } from "../../../kit/failure-of.ts"

const POLL_MS = 25

const wait = (given: Partial<HealthWait>): HealthWait => ({
  client: { health: async () => ({ version: "1.2.3" }) },
  isListening: () => true,
  exitReason: () => undefined,
  describeLog: async () => "; its last log lines: oh",
  timeoutMs: 5000,
  clock: systemClock,
  signal: new AbortController().signal,
  ...given,
})

/** Lets the wait run for this long, poll by poll. */
const letPass = async (clock: ManualClock, ms: number) => {
  for (let passed = 0; passed < ms; passed += POLL_MS) {
    // Sleep: yields, so that the wait sends its next check and waits for the clock.
    await Bun.sleep(0)
    clock.advance(POLL_MS)
  }
}

test("health checks without a response do not delay the one that gets a response", async () => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: () => Response.json({ healthy: true, version: "1.2.3" }),
  })
  try {
    const client = createAgentClient({ url: server.url.origin, password: "p", directory: "/" })
    const clock = createManualClock()
    let checks = 0
    const health = () => {
      checks += 1
      return checks <= 6 ? new Promise<never>(() => {}) : client.health()
    }
    const healthy = waitForHealth(wait({ client: { health }, clock }))
    await letPass(clock, 6 * POLL_MS)
    expect(await healthy).toBe("1.2.3")
    expect(checks).toBe(7)
  } finally {
    await server.stop(true)
  }
})

test("a process that does not respond gets at most twenty health checks at a time", async () => {
  const clock = createManualClock()
  let open = 0
  const health = () => {
    open += 1
    return new Promise<never>(() => {})
  }
  const failure = failureOf(waitForHealth(wait({ client: { health }, timeoutMs: 1200, clock })))
  await letPass(clock, 1200)
  expect(await failure).toContain("was not healthy within 1.2 s")
  expect(open).toBe(20)
})

test("a process that exited is reported with its last log lines and gets no health check", async () => {
  const health = () => Promise.reject(new Error("unexpected health check"))
  const dead = waitForHealth(
    wait({ client: { health }, isListening: () => false, exitReason: () => "exited with code 7" }),
  )
  expect(dead).rejects.toThrow(
    "OpenCode exited with code 7 before it was ready; its last log lines: oh",
  )
})

test("a process that never listens is reported as not listening", async () => {
  const deaf = waitForHealth(wait({ isListening: () => false, timeoutMs: 100 }))
  expect(deaf).rejects.toThrow("it does not listen")
})

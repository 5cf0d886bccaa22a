/** The wait for a process that was just started. */
import { expect, test } from "bun:test"
import { createAgentClient } from "../../../../src/runner/opencode/client/client.ts"
import { type HealthWait, waitForHealth } from "../../../../src/runner/opencode/launch/health.ts"
import { systemClock } from "../../../../src/lib/clock.ts"

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

test("health checks without a response do not delay the one that gets a response", async () => {
  let received = 0
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: () => {
      received += 1
      return received <= 6
        ? new Promise(() => {})
        : Response.json({ healthy: true, version: "1.2.3" })
    },
  })
  const client = createAgentClient({ url: server.url.origin, password: "p", directory: "/" })
  let isSilent = true
  const slow = Bun.sleep(900).then(() => (isSilent = false))
  expect(await waitForHealth(wait({ client }))).toBe("1.2.3")
  // Healthy before the first silent check timed out.
  expect(isSilent).toBe(true)
  await slow
  await server.stop(true)
})

test("a process that does not respond gets at most twenty health checks at a time", async () => {
  let open = 0
  const health = () => {
    open += 1
    return new Promise<never>(() => {})
  }
  const silent = waitForHealth(wait({ client: { health }, timeoutMs: 1200 }))
  expect(silent).rejects.toThrow("was not healthy within 1.2 s")
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

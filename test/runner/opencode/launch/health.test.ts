/** Waiting for a process that has just been started. */
import { expect, test } from "bun:test"
import { createAgentClient } from "../../../../src/runner/opencode/client/client.ts"
import { type HealthWait, waitForHealth } from "../../../../src/runner/opencode/launch/health.ts"
import { systemClock } from "../../../../src/lib/clock.ts"

const wait = (given: Partial<HealthWait>): HealthWait => ({
  client: { health: async () => ({ version: "1.2.3" }) },
  listens: () => true,
  end: () => undefined,
  words: async () => "; its last words: oh",
  limitMs: 5000,
  clock: systemClock,
  signal: new AbortController().signal,
  ...given,
})

test("connections that are never answered do not hold up the one that is", async () => {
  let asked = 0
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: () => {
      asked += 1
      return asked <= 6 ? new Promise(() => {}) : Response.json({ healthy: true, version: "1.2.3" })
    },
  })
  const client = createAgentClient({ url: server.url.origin, password: "p", directory: "/" })
  let isSilent = true
  const slow = Bun.sleep(900).then(() => (isSilent = false))
  expect(await waitForHealth(wait({ client }))).toBe("1.2.3")
  // Answered before the first of the silent ones was given up.
  expect(isSilent).toBe(true)
  await slow
  await server.stop(true)
})

test("a silent process is asked by a bounded number of connections", async () => {
  let open = 0
  const health = () => {
    open += 1
    return new Promise<never>(() => {})
  }
  const silent = waitForHealth(wait({ client: { health }, limitMs: 1200 }))
  expect(silent).rejects.toThrow("was not healthy within 1.2 s")
  expect(open).toBe(20)
})

test("one that ended is told with its last words, and is asked nothing", async () => {
  const health = () => Promise.reject(new Error("asked"))
  const dead = waitForHealth(
    wait({ client: { health }, listens: () => false, end: () => "exited with code 7" }),
  )
  expect(dead).rejects.toThrow(
    "OpenCode exited with code 7 before it was ready; its last words: oh",
  )
})

test("one that never listens is told apart from one that does not answer", async () => {
  const deaf = waitForHealth(wait({ listens: () => false, limitMs: 100 }))
  expect(deaf).rejects.toThrow("it does not listen")
})

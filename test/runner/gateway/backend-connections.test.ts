/** Kept connections to backends: which requests may use one. */
import { expect, test } from "bun:test"
import { createDialer } from "../../../src/runner/gateway/tcp/backend-connections.ts"
import { createManualClock } from "../../kit/clock.ts"

test("a request that cannot be repeated uses only a connection that was used a moment ago", async () => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  const clock = createManualClock(0)
  const dialer = createDialer(clock)
  const first = await dialer.connect(server.port)
  if (!first) throw new Error("not connected")
  dialer.keep(first)
  expect(dialer.reuse(server.port, -1)).toBeUndefined()
  clock.advance(20_001)
  expect(dialer.reuse(server.port, 20_000)).toBeUndefined()
  expect(dialer.reuse(server.port)).toBe(first)
  dialer.keep(first)
  clock.advance(20_000)
  expect(dialer.reuse(server.port, 20_000)).toBe(first)
  expect(dialer.reuse(server.port)).toBeUndefined()
  first.close()
  server.stop(true)
})

/** A browser finds a name below `.localhost` at ::1 too: another program must not be able to answer there. */
import { expect, test } from "bun:test"
import { startTestGateway } from "../runner/gateway/kit.ts"

test("a gateway on 127.0.0.1 also answers on ::1, and no other program can take that address", async () => {
  const gateway = startTestGateway()
  const other = () =>
    Bun.serve({ hostname: "::1", port: gateway.port, fetch: () => new Response("of another") })
  const health = await fetch(`http://[::1]:${gateway.port}/health`)
  expect(health.status).toBe(200)
  expect(other).toThrow("in use")
  await gateway.stop()
  await other().stop(true)
})

test("a gateway does not start at a port of which another program has ::1, and says so", async () => {
  const other = Bun.serve({ hostname: "::1", port: 0, fetch: () => new Response("of another") })
  const port = other.port ?? 0
  const failure = () => startTestGateway({ port })
  expect(failure).toThrow(`the gateway cannot listen on 127.0.0.1:${port}`)
  await other.stop(true)
  await startTestGateway({ port }).stop()
})

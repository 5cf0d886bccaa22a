/** Ports for servers that are started a moment later, in another process. */
import { expect, test } from "bun:test"
import { freePort } from "../../src/lib/free-port.ts"

test("a free port is below the range that the kernel gives to others, and a server can listen on it", async () => {
  for (let count = 0; count < 20; count += 1) {
    const port = freePort()
    expect(port).toBeLessThan(32_768)
    const server = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => new Response("here") })
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("here")
    await server.stop(true)
  }
})

test("a port on which a server listens is not given", async () => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: freePort(),
    fetch: () => new Response(""),
  })
  const given = new Set(Array.from({ length: 200 }, () => freePort()))
  expect(given.has(server.port ?? 0)).toBe(false)
  expect(given.size).toBeGreaterThan(150)
  await server.stop(true)
})

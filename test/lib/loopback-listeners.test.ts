/** Servers on both addresses of loopback, with real sockets. */
import { afterEach, expect, test } from "bun:test"
import { probePort } from "../../src/cli/port-in-use.ts"
import { listenOnLoopback } from "../../src/lib/loopback-listeners.ts"
import { freePort } from "../kit/free-port.ts"

const open: Bun.Server<undefined>[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

const serve = (hostname: string, port: number): Bun.Server<undefined> => {
  const server = Bun.serve({ hostname, port, fetch: () => new Response(hostname) })
  open.push(server)
  return server
}
const portOf = (server: Bun.Server<undefined>): number => server.port ?? 0

test("a server on 127.0.0.1 has the same port of ::1, so that no other program can listen there", async () => {
  const servers = listenOnLoopback("127.0.0.1", 0, serve)
  const port = portOf(servers[0])
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("127.0.0.1")
  expect(await (await fetch(`http://[::1]:${port}/`)).text()).toBe("::1")
  expect(() => serve("::1", port)).toThrow("in use")
})

test("a port of which another program has ::1 is refused, and counts as in use", () => {
  // Not one of the ports that the kernel gives to outgoing connections: it is free on 127.0.0.1.
  const port = portOf(serve("::1", freePort()))
  expect(() => listenOnLoopback("127.0.0.1", port, serve)).toThrow(`[::1]:${port}`)
  expect(probePort("127.0.0.1", port)).toBe("in-use")
  // Nothing is left on 127.0.0.1.
  expect(portOf(serve("127.0.0.1", port))).toBe(port)
})

test("a server on all addresses, or on a machine without IPv6, has one listener", () => {
  expect(listenOnLoopback("0.0.0.0", 0, serve)).toHaveLength(1)
  const withoutIpv6 = (hostname: string, port: number) => {
    if (hostname === "::1") throw Object.assign(new Error("refused"), { code: "EADDRNOTAVAIL" })
    return serve(hostname, port)
  }
  expect(listenOnLoopback("127.0.0.1", 0, withoutIpv6)).toHaveLength(1)
})

/** A port that is taken for a moment is waited for; one that stays taken is named, with what to do. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { probePort, untilPortIsFree } from "../../src/cli/port-in-use.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { freePort } from "../../src/lib/free-port.ts"
import { createManualClock } from "../kit/clock.ts"
import { failureOf } from "../kit/failure-of.ts"
import { untilTrue } from "../kit/until-true.ts"

const hostname = "127.0.0.1"

/** Several connections to different servers may have the same local port, also ones that ended in the last minute. */
const connectionsFrom = (port: number): number => {
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`
  const locals = readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/ +/)[1] ?? "")
  return locals.filter((local) => local.endsWith(end)).length
}

/** A connection whose local port no other connection has. */
const connectAlone = async (to: number): Promise<Socket> => {
  for (;;) {
    const outgoing = connect({ host: hostname, port: to })
    await new Promise((resolve) => outgoing.once("connect", resolve))
    if (connectionsFrom(Number(outgoing.localPort)) === 1) return outgoing
    outgoing.destroy()
  }
}

test("a server waits for a port that is the local end of an outgoing connection", async () => {
  const accepted = new Map<number, { readonly terminate: () => unknown }>()
  const other = Bun.listen({
    hostname,
    port: 0,
    socket: { data: () => {}, open: (socket) => void accepted.set(socket.remotePort, socket) },
  })
  const outgoing = await connectAlone(other.port)
  const closed = new Promise((resolve) => outgoing.once("close", resolve))
  const port = Number(outgoing.localPort)
  await untilTrue(() => accepted.has(port), "accepted connection")
  const said: string[] = []
  const free = untilPortIsFree({
    hostname,
    port,
    clock: systemClock,
    say: (text) => said.push(text),
  })
  expect(said).toEqual([`Port ${port} is in use: waiting up to 65 seconds for it\n`])
  // A reset, because the port of a connection that ends as usual is kept for a minute.
  accepted.get(port)?.terminate()
  await closed
  await free
  other.stop(true)
})

test("a port that stays in use is an error that names the port and the setting", async () => {
  const other = Bun.listen({ hostname, port: 0, socket: { data: () => {} } })
  const { now, advance } = createManualClock()
  // Every wait passes at once.
  const after = (ms: number, run: () => void) => {
    queueMicrotask(() => {
      advance(ms)
      run()
    })
    return () => {}
  }
  const wait = { hostname, port: other.port, clock: { now, after }, say: () => {} }
  const problem = await failureOf(untilPortIsFree(wait))
  expect(problem).toContain(`port ${other.port} is in use: end the program that uses it`)
  expect(problem).toContain("HUB_PORT")
  expect(now()).toBeGreaterThanOrEqual(60_000)
  other.stop(true)
})

test("any port and a free port are not waited for", async () => {
  const said: string[] = []
  const wait = { hostname, clock: systemClock, say: (text: string) => void said.push(text) }
  await untilPortIsFree({ ...wait, port: 0 })
  await untilPortIsFree({ ...wait, port: freePort() })
  expect(said).toEqual([])
})

test("a port is free, in use, or refused for another reason", async () => {
  const other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() })
  expect(probePort("127.0.0.1", Number(other.port))).toBe("in-use")
  await other.stop(true)
  expect(probePort("127.0.0.1", freePort())).toBe("free")
  // An address of documentation, which no machine has.
  expect(probePort("192.0.2.1", freePort())).toBe("refused")
})

/** A port that is taken for a moment is waited for; one that stays taken is named, with what to do. */
import { expect, test } from "bun:test"
import { connect } from "node:net"
import { untilPortIsFree } from "../../src/cli/port-in-use.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { freePort } from "../../src/lib/free-port.ts"
import { createManualClock } from "../kit/clock.ts"

const hostname = "127.0.0.1"

test("a server waits for a port that is the local end of an outgoing connection", async () => {
  const accepted = Promise.withResolvers<{ readonly terminate: () => unknown }>()
  const other = Bun.listen({
    hostname,
    port: 0,
    socket: { data: () => {}, open: (socket) => accepted.resolve(socket) },
  })
  const outgoing = connect({ host: hostname, port: other.port })
  const closed = new Promise((resolve) => outgoing.once("close", resolve))
  await new Promise((resolve) => outgoing.once("connect", resolve))
  const there = await accepted.promise
  const port = Number(outgoing.localPort)
  const said: string[] = []
  const free = untilPortIsFree({
    hostname,
    port,
    clock: systemClock,
    say: (text) => said.push(text),
  })
  expect(said).toEqual([`Port ${port} is in use: waiting up to 65 seconds for it\n`])
  // A reset, because the port of a connection that ends as usual is kept for a minute.
  there.terminate()
  await closed
  await free
  other.stop(true)
})

test("a port that stays in use is an error that names the port and the setting", async () => {
  const other = Bun.listen({ hostname, port: 0, socket: { data: () => {} } })
  const clock = createManualClock()
  let isOver = false
  const free = untilPortIsFree({ hostname, port: other.port, clock, say: () => {} })
  const problem = free
    .then(
      () => "free",
      (error: unknown) => String(error),
    )
    .finally(() => {
      isOver = true
    })
  while (!isOver) {
    clock.advance(1000)
    await Bun.sleep(0)
  }
  expect(await problem).toContain(`port ${other.port} is in use: end the program that uses it`)
  expect(await problem).toContain("HUB_PORT")
  other.stop(true)
})

test("any port and a free port are not waited for", async () => {
  const said: string[] = []
  const wait = { hostname, clock: systemClock, say: (text: string) => void said.push(text) }
  await untilPortIsFree({ ...wait, port: 0 })
  await untilPortIsFree({ ...wait, port: freePort() })
  expect(said).toEqual([])
})

/** When the gateway reports that people work in the sandbox. */
import { afterEach, expect, test } from "bun:test"
import { WebSocket } from "ws"
import type { RequestHead } from "../../../src/runner/gateway/http/head.ts"
import { createWorkMeter } from "../../../src/runner/gateway/work-meter.ts"
import { createManualClock } from "../../kit/clock.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { logIn, startTestGateway } from "./kit.ts"

const headOf = (method: string, ...headers: readonly (readonly [string, string])[]) =>
  ({ method, headers: headers.map(([key, value]) => ({ key, value })) }) as unknown as RequestHead
const page = headOf("GET", ["sec-fetch-dest", "document"])
const data = headOf("GET", ["sec-fetch-dest", "empty"])

/** A WebSocket over which a test sends bytes. */
const socketOf = (route: string, isTrusted = true) => {
  let bytes = 0
  const send = (more: number) => {
    bytes += more
  }
  return { head: data, route, isTrusted, messageBytes: () => bytes, send }
}

test("one key in a terminal is work, and a terminal that is only open is not", () => {
  const meter = createWorkMeter()
  const terminal = socketOf("ttyd")
  expect(meter.sample([terminal])).toBe(false)
  terminal.send(8)
  expect(meter.sample([terminal])).toBe(true)
  expect(meter.sample([terminal])).toBe(false)
})

test("the keep-alives of an open editor are not work, and typing is", () => {
  const meter = createWorkMeter()
  const editor = socketOf("vscode")
  for (const [bytes, isWork] of [
    [4400, false],
    [4400, false],
    [60_000, true],
    [4400, false],
  ] as const) {
    editor.send(bytes)
    expect(meter.sample([editor])).toBe(isWork)
  }
})

test("a terminal that was used and closed between two samples is work", () => {
  const meter = createWorkMeter()
  const terminal = socketOf("terminal")
  terminal.send(8)
  meter.ended(terminal)
  expect(meter.sample([])).toBe(true)
  expect(meter.sample([])).toBe(false)
})

test("a page that is opened and a change are work, and data that an app asks for again and again is not", () => {
  const meter = createWorkMeter()
  const request = (head: RequestHead, route: string, isTrusted = true) => {
    meter.ended({ head, route, isTrusted, messageBytes: () => 0 })
    return meter.sample([])
  }
  expect(request(page, "tunnel")).toBe(true)
  expect(request(headOf("POST"), "tunnel-host")).toBe(true)
  expect(request(data, "tunnel")).toBe(false)
  expect(request(page, "tunnel", false)).toBe(false)
})

test("calls of the agent's tools and requests without a login are not work", () => {
  const meter = createWorkMeter()
  meter.ended({ head: headOf("POST"), route: "api", isTrusted: true, messageBytes: () => 0 })
  const stranger = socketOf("ttyd", false)
  stranger.send(1000)
  expect(meter.sample([stranger])).toBe(false)
})

const cleanup: (() => unknown)[] = []
afterEach(async () => {
  for (const end of cleanup.splice(0).toReversed()) await end()
})

test("the gateway reports a person who types in a terminal, and not one whose terminal is only open", async () => {
  const clock = createManualClock(Date.now())
  let reports = 0
  const gateway = startTestGateway({ clock, onUsed: () => (reports += 1) })
  cleanup.push(() => {
    const stopped = gateway.stop()
    clock.advance(10_000)
    return stopped
  })
  const cookie = await logIn(gateway, "/terminal/")
  const headers = { cookie, origin: gateway.url }
  const made = await fetch(`${gateway.url}/terminal/new`, { method: "POST", headers, body: "{}" })
  const { id } = (await made.json()) as { id: string }
  // The login and the new terminal.
  clock.advance(30_000)
  expect(reports).toBe(1)
  const address = `${gateway.url.replace("http", "ws")}/terminal/ws?id=${id}`
  const socket = new WebSocket(address, ["tty"], { headers })
  cleanup.push(() => socket.terminate())
  let output = ""
  let pings = 0
  socket.on("ping", () => (pings += 1))
  socket.on("message", (piece: Buffer) => {
    output += piece.toString()
  })
  /** Resolves when the gateway has read everything that this client has sent, such as its pongs. */
  const exchanged = async () => {
    const pong = Promise.withResolvers<void>()
    socket.once("pong", () => pong.resolve())
    socket.ping()
    await pong.promise
  }
  await untilTrue(async () => output.includes("$") || output.includes("#"), "a prompt of the shell")
  clock.advance(30_000)
  await exchanged()
  const before = reports
  // Open, with pings and pongs, for five minutes.
  for (let half = 0; half < 10; half += 1) {
    clock.advance(30_000)
    await exchanged()
  }
  expect(pings).toBeGreaterThan(0)
  expect(reports).toBe(before)
  socket.send("0echo t$((40 + 2))\n")
  await untilTrue(async () => output.includes("t42"), "the output of the command")
  clock.advance(30_000)
  expect(reports).toBe(before + 1)
})

/**
 * Terminals over real sockets and a real PTY: shells, replay, flow control, limits, and who may use them. The tests share one gateway;
 * each opens its own terminals, and they are closed after each test.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WebSocket } from "ws"
import { createManualClock } from "../../kit/clock.ts"
import { untilStill } from "../../kit/until-still.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { logIn, startTestGateway, type TestGateway, testTerminals } from "./kit.ts"

let gateway: TestGateway
let cookie = ""
const open: WebSocket[] = []

beforeAll(async () => {
  gateway = startTestGateway()
  cookie = await logIn(gateway, "/terminal/")
})
afterEach(async () => {
  for (const socket of open.splice(0)) socket.terminate()
  for (const { id } of await list()) await call("DELETE", id)
})
afterAll(() => gateway.stop())

const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/terminal/${path}`, {
    method,
    headers: { cookie, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
const list = async () =>
  ((await (await call("GET", "list")).json()) as { terminals: { id: string; cols: number }[] })
    .terminals
const create = async (headers: Record<string, string> = {}, at = gateway.url) => {
  const response = await fetch(`${at}/terminal/new`, {
    method: "POST",
    headers: { cookie, ...headers },
    body: JSON.stringify({ cols: 100, rows: 30 }),
  })
  expect(response.status).toBe(201)
  return ((await response.json()) as { id: string }).id
}

interface View {
  readonly socket: WebSocket
  readonly text: () => string
  readonly bytes: () => number
  readonly type: (text: string) => void
  readonly seen: (pattern: string | RegExp) => Promise<void>
  readonly closed: Promise<{ code: number; reason: string }>
}
const view = async (
  id: string,
  headers: Record<string, string> = {},
  at = gateway.url,
): Promise<View> => {
  const socket = new WebSocket(`${at.replace("http", "ws")}/terminal/ws?id=${id}`, ["tty"], {
    headers: { cookie, origin: at, ...headers },
  })
  open.push(socket)
  let text = ""
  let bytes = 0
  socket.on("message", (data: Buffer) => {
    if (data[0] !== 48) return
    bytes += data.length - 1
    text += data.subarray(1).toString("latin1")
  })
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on("close", (code, reason) => resolve({ code, reason: String(reason) }))
  })
  await new Promise((resolve, reject) => {
    socket.on("open", resolve)
    socket.on("error", reject)
  })
  expect(socket.protocol).toBe("tty")
  return {
    socket,
    text: () => text,
    bytes: () => bytes,
    type: (typed) => socket.send(Buffer.from(`0${typed}`)),
    seen: async (pattern) => {
      const isSeen = () =>
        typeof pattern === "string" ? text.includes(pattern) : pattern.test(text)
      await untilTrue(isSeen, () => `${pattern}, but ${text.slice(-500)},`)
    },
    closed,
  }
}

test("a shell takes input, has the size of its viewer, and is told when it changes", async () => {
  const id = await create()
  const { type, seen, socket } = await view(id)
  type("stty size; tty\r")
  await seen("30 100")
  await seen("/dev/pts/")
  socket.send(Buffer.from('1{"columns":120,"rows":40}'))
  type("stty size\r")
  await seen("40 120")
  expect((await list()).find((one) => one.id === id)?.cols).toBe(120)
  await call("DELETE", id)
})

test("a second view of the same shell gets a reset, the output so far, then what both see", async () => {
  const id = await create()
  const first = await view(id)
  first.type("echo before-$((1+1))\r")
  await first.seen("before-2")
  first.socket.terminate()
  const second = await view(id)
  await second.seen("before-2")
  expect(second.text()).toStartWith("\u001Bc")
  const third = await view(id)
  third.type("echo both-$((2+2))\r")
  await Promise.all([second.seen("both-4"), third.seen("both-4")])
  await call("DELETE", id)
})

test("a view that joins in the middle of a full-screen program gets its modes before the kept output", async () => {
  const id = await create()
  const first = await view(id)
  first.type(String.raw`printf '\033[?1049h\033[?1002h'; seq 1 300000; sleep 60` + "\r")
  await first.seen("\n300000\r\n")
  expect(first.bytes()).toBeGreaterThanOrEqual(2_000_000)
  const second = await view(id)
  await second.seen("300000")
  expect(second.text()).toStartWith("\u001Bc\u001B[?1049h\u001B[?1002h")
  expect(second.bytes()).toBeLessThanOrEqual(1024 * 1024 + 100)
  await call("DELETE", id)
})

test("mouse reports of a killed program are switched off, so that the shell reads no garbage", async () => {
  const id = await create()
  const { type, seen } = await view(id)
  type(String.raw`bash -c 'printf "\033[?1003h\033[?1006hon"; kill -9 $$'` + "\r")
  await seen("\u001B[?1003l\u001B[?1006l")
  await call("DELETE", id)
})

test("a viewer that does not read stops the program, and every byte arrives when it reads again", async () => {
  // The test's own clock: a viewer that takes nothing is skipped after five seconds, and a busy machine can need more.
  const clock = createManualClock()
  const own = startTestGateway({ terminal: testTerminals(clock) })
  const folder = mkdtempSync(join(tmpdir(), "terminals-"))
  const progress = join(folder, "progress")
  try {
    const headers = { cookie: await logIn(own, "/terminal/") }
    const id = await create(headers, own.url)
    const { type, seen, socket, bytes } = await view(id, headers, own.url)
    type("stty raw -echo; echo ready-$((1+1))\r")
    await seen("ready-2")
    socket.pause()
    // With pauses: the kernel stops the program late on a busy machine, and what it writes until then must fit into the ring.
    const two = "head -c 2000000 /dev/zero | tr '\\0' x"
    const forty = `for i in {1..20}; do ${two}; echo $i > ${progress}; sleep 0.04; done`
    // The shell computes the last word: the echo of the command line does not contain it.
    type(`${forty}; echo; echo END-$((2+3))\r`)
    const done = () => (existsSync(progress) ? readFileSync(progress, "utf8").trim() : "")
    await untilStill(done, "program that is stopped")
    const rss = process.memoryUsage.rss()
    await untilStill(done, "program that stays stopped")
    expect(Number(done())).toBeLessThan(20)
    expect(process.memoryUsage.rss() - rss).toBeLessThan(20_000_000)
    socket.resume()
    await seen("END-5")
    expect(done()).toBe("20")
    expect(bytes()).toBeGreaterThan(40_000_000)
    await fetch(`${own.url}/terminal/${id}`, { method: "DELETE", headers })
  } finally {
    await own.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})

test("a pause of the client holds the output back, and a resume lets it continue", async () => {
  const id = await create()
  const { type, seen, socket, bytes } = await view(id)
  await seen(/[#$] $/)
  socket.send(Buffer.from("2"))
  // The gateway has read the pause, and this view has received what was sent before it.
  const exchanged = async () => {
    const pong = Promise.withResolvers<void>()
    socket.once("pong", () => pong.resolve())
    socket.ping()
    await pong.promise
  }
  await exchanged()
  const before = bytes()
  const other = await view(id)
  type("echo while-paused-$((3+3))\r")
  await other.seen("while-paused-6")
  await exchanged()
  expect(bytes()).toBe(before)
  socket.send(Buffer.from("3"))
  await seen("while-paused-6")
  await call("DELETE", id)
})

test("there are eight terminals at most, and a closed one makes room", async () => {
  const ids: string[] = []
  while ((await list()).length < 8) ids.push(await create())
  const ninth = await call("POST", "new", {})
  expect(ninth.status).toBe(409)
  for (const id of ids) expect((await call("DELETE", id)).status).toBe(200)
  expect((await call("DELETE", ids[0] ?? "")).status).toBe(404)
  await call("DELETE", await create())
})

test("a shell that exits ends its views, and its terminal is gone", async () => {
  const id = await create()
  const { type, closed } = await view(id)
  type("exit 3\r")
  expect(await closed).toEqual({ code: 1000, reason: "the shell has ended: exit code 3" })
  expect((await list()).some((one) => one.id === id)).toBe(false)
})

test("the last output of a shell that exits reaches a viewer that holds the output back", async () => {
  const id = await create()
  const { type, seen, socket, text, closed } = await view(id)
  await seen(/[#$] $/)
  socket.send(Buffer.from("2"))
  type("echo last-$((4+4)); exit\r")
  expect(await closed).toEqual({ code: 1000, reason: "the shell has ended: exit code 0" })
  expect(text()).toContain("last-8")
})

test("all output of a shell arrives if the shell exits right after it", async () => {
  for (let time = 0; time < 10; time += 1) {
    const { type, text, closed } = await view(await create())
    type(String.raw`head -c 3000000 /dev/zero | tr '\0' '\176'; exit` + "\r")
    await closed
    expect(text().match(/~/g)?.length).toBe(3_000_000)
  }
})

test("a program that a shell has left behind does not keep its terminal open", async () => {
  const id = await create()
  const { type, closed, text } = await view(id)
  type("(trap '' HUP; sleep 1000 & echo left=$!.); exit 4\r")
  expect(await closed).toEqual({ code: 1000, reason: "the shell has ended: exit code 4" })
  const left = Number(/left=(\d+)\./.exec(text())?.[1])
  expect(existsSync(`/proc/${left}`)).toBe(true)
  process.kill(left, "SIGKILL")
})

test("closing a terminal ends its programs, also those that ignore the hangup", async () => {
  const id = await create()
  const { type, seen, text } = await view(id)
  type("trap '' HUP; echo pid=$$.; sleep 60\r")
  await seen(/pid=\d+\./)
  const pid = /pid=(\d+)\./.exec(text())?.[1] ?? ""
  expect(existsSync(`/proc/${pid}`)).toBe(true)
  await call("DELETE", id)
  await untilTrue(() => !existsSync(`/proc/${pid}`), "end of the shell")
})

test("a page of another origin can neither open a terminal nor join one, with the person's cookie", async () => {
  const id = await create()
  const foreign = { origin: "http://app--box.sandpiper.localhost" }
  expect((await call("POST", "new", {}, foreign)).status).toBe(403)
  expect((await call("DELETE", id, undefined, foreign)).status).toBe(403)
  const socket = new WebSocket(`${gateway.url.replace("http", "ws")}/terminal/ws?id=${id}`, {
    headers: { cookie, ...foreign },
  })
  const status = await new Promise((resolve) => {
    socket.on("unexpected-response", (_request, { statusCode }) => resolve(statusCode))
    socket.on("error", () => {})
  })
  expect(status).toBe(403)
  await call("DELETE", id)
})

test("without a cookie nothing of a terminal is served", async () => {
  for (const path of ["", "list", "ws?id=x", "assets/x.js"])
    expect((await fetch(`${gateway.url}/terminal/${path}`)).status).toBe(401)
})

test("a bad request is refused: sizes, methods, unknown ids", async () => {
  expect((await call("POST", "new", { cols: 0 })).status).toBe(400)
  expect((await call("GET", "new")).status).toBe(405)
  expect((await call("PUT", "list", {})).status).toBe(405)
  expect((await call("GET", "x.js")).status).toBe(404)
})

/** 50 MB of output through a terminal: a PTY alone, the gateway's terminal over a WebSocket, and ttyd if it is installed. */
import { WebSocket } from "ws"
import { createTerminals } from "../src/runner/sandbox/terminals.ts"
import { systemClock } from "../src/lib/clock.ts"
import { logIn, startTestGateway } from "../test/runner/gateway/kit.ts"
import { say } from "./measure.ts"

const BYTES = 50_000_000
const RUNS = 3
const PROGRAM = `yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c ${BYTES}`
const command = ["bash", "-c", `stty raw -echo; read -r _; ${PROGRAM}; sleep 5`]
const environment = { PATH: process.env["PATH"] ?? "" }

const rate = (ms: number): string => `${Math.round(BYTES / 1000 / ms)} MB/s`

const directPty = async (): Promise<number> => {
  const done = Promise.withResolvers<number>()
  let received = 0
  const shell = Bun.spawn(command, {
    env: environment,
    terminal: {
      data: (_pty, bytes) => {
        received += bytes.length
        if (received >= BYTES) done.resolve(performance.now())
      },
    },
  })
  await Bun.sleep(300)
  const from = performance.now()
  shell.terminal?.write("\n")
  const taken = (await done.promise) - from
  shell.kill()
  return taken
}

/** Connects as a browser does, sends a line, and measures until every byte has arrived. */
const overSocket = async (url: string, headers: Record<string, string>): Promise<number> => {
  const socket = new WebSocket(url, ["tty"], { headers })
  const done = Promise.withResolvers<number>()
  let received = 0
  socket.on("message", (data: Buffer) => {
    if (data[0] !== 48) return
    received += data.length - 1
    if (received >= BYTES) done.resolve(performance.now())
  })
  await new Promise((resolve) => socket.on("open", resolve))
  socket.send(Buffer.from('{"AuthToken":"","columns":80,"rows":24}'))
  await Bun.sleep(300)
  const from = performance.now()
  socket.send(Buffer.from("0\n"))
  const taken = (await done.promise) - from
  socket.terminate()
  return taken
}

const ofGateway = async (): Promise<number> => {
  const terminals = createTerminals({
    workDir: "/",
    environment,
    user: undefined,
    owner: "bench",
    clock: systemClock,
    command,
  })
  const gateway = startTestGateway({ terminal: { terminals, files: new Map() } })
  const cookie = await logIn(gateway, "/terminal/x")
  const id = terminals.open({ cols: 80, rows: 24 }) ?? ""
  const url = `${gateway.url.replace("http", "ws")}/terminal/ws?id=${id}`
  const taken = await overSocket(url, { cookie, origin: gateway.url })
  terminals.stop()
  await gateway.stop()
  return taken
}

const ofTtyd = async (ttyd: string): Promise<number> => {
  const port = 20_000 + Math.floor(Math.random() * 20_000)
  const server = Bun.spawn([ttyd, "-W", "-i", "127.0.0.1", "-p", String(port), ...command], {
    stdio: ["ignore", "ignore", "ignore"],
  })
  await Bun.sleep(500)
  const taken = await overSocket(`ws://127.0.0.1:${port}/ws`, {})
  server.kill()
  return taken
}

const best = async (run: () => Promise<number>): Promise<number> => {
  const times: number[] = []
  for (let count = 0; count < RUNS; count += 1) times.push(await run())
  return Math.min(...times)
}

say("a PTY alone", rate(await best(directPty)))
say("the gateway's terminal", rate(await best(ofGateway)))
const ttyd = Bun.which("ttyd")
say("ttyd", ttyd === null ? "not installed" : rate(await best(() => ofTtyd(ttyd))))
process.exit()

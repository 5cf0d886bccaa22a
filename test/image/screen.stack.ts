/** The real services of the screen (Xvfb, fluxbox, x11vnc, websockify): stale locks, kill -9 of each, shutdown. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  carriersOf,
  commandOf,
  listenerOf,
  listProcesses,
} from "../../src/runner/host/processes.ts"
import { servicesOf } from "../../src/runner/host/service-table.ts"
import { createServices, type Services } from "../../src/runner/host/services.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { freePort } from "../kit/free-port.ts"
import { recordingLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"

const screen = ["xvfb", "fluxbox", "x11vnc", "websockify"]
const number = 600 + (process.pid % 300)
const lock = `/tmp/.X${number}-lock`
const phases = new Map<string, string>()
const lines: string[] = []
let root: string
let services: Services
let ports: { vscode: number; vnc: number; rawVnc: number; ttyd: number }

const until = (condition: () => boolean, what: string) =>
  untilTrue(condition, () => `${what}:\n${lines.join("\n")}\n`)
const allReady = () => screen.every((name) => phases.get(name) === "ready")
const ours = () => carriersOf("SANDPIPER_SERVICE_OF", root, listProcesses())

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "screen-"))
  ports = { vscode: freePort(), vnc: freePort(), rawVnc: freePort(), ttyd: freePort() }
  // A copied file system leaves such a lock: its pid is alive, but is not an X server.
  await writeFile(lock, `${String(process.pid).padStart(10)}\n`)
  await writeFile(`/tmp/.X11-unix/X${number}`, "")
  const display = `:${number}`
  services = createServices({
    services: servicesOf({ display, workDir: root, ports }).filter(({ group }) => group === "vnc"),
    display,
    home: root,
    cwd: root,
    environment: { PATH: process.env["PATH"] ?? "", HOME: root },
    owner: root,
    clock: systemClock,
    log: recordingLog(lines),
    onChange: (name, { phase }) => void phases.set(name, phase),
  })
  await services.start()
})
afterAll(async () => {
  await services.stop()
  await rm(root, { recursive: true, force: true })
})

test("all services of the screen start although a stale lock names a live process", async () => {
  await until(allReady, "screen")
  expect(lines.join("\n")).toContain("service.stale-locks-removed")
})

test("websockify serves the noVNC page and x11vnc sends its protocol banner", async () => {
  const page = await fetch(`http://127.0.0.1:${ports.vnc}/vnc.html`)
  expect(page.status).toBe(200)
  const banner = await new Promise<string>((resolve) => {
    void Bun.connect({
      hostname: "127.0.0.1",
      port: ports.rawVnc,
      socket: { data: (_socket, bytes) => resolve(bytes.toString()) },
    })
  })
  expect(banner).toStartWith("RFB 003.008")
})

test.each(["fluxbox", "x11vnc", "websockify", "xvfb"])(
  "%s is restarted after kill -9 and all services become ready again",
  async (name) => {
    const found = ours().find(({ pid }) => commandOf(pid).toLowerCase().includes(name))
    // The pid 0 would be the whole process group of the test.
    if (!found) throw new Error(`${name} does not run`)
    process.kill(found.pid, "SIGKILL")
    await until(() => phases.get(name) !== "ready", "crash")
    await until(allReady, "screen")
  },
)

test("stopping the services leaves no process, no listening port and no lock", async () => {
  await services.stop()
  expect(ours()).toEqual([])
  expect(listenerOf(ports.vnc)).toBeUndefined()
  expect(existsSync(lock)).toBeFalse()
})

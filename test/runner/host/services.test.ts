/** Supervision of services with real processes. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../kit/free-port.ts"
import { carriersOf, listenerOf, listProcesses } from "../../../src/runner/host/processes.ts"
import type { ServiceState } from "../../../src/runner/host/service-state.ts"
import { type Service, servicesOf } from "../../../src/runner/host/service-table.ts"
import { createServices, type Services } from "../../../src/runner/host/services.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { recordingLog } from "../../kit/log.ts"
import { untilTrue } from "../../kit/until-true.ts"

let root: string
let lines: string[]
const running: Services[] = []

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "services-"))
  lines = []
})
afterEach(async () => {
  for (const services of running.splice(0)) await services.stop()
  await rm(root, { recursive: true, force: true })
})

const start = async (services: readonly Service[], owner = root) => {
  const states = new Map<string, ServiceState[]>()
  const created = createServices({
    services,
    display: ":4711",
    home: root,
    cwd: root,
    environment: { PATH: process.env["PATH"] ?? "", HOME: root },
    owner,
    clock: systemClock,
    log: recordingLog(lines),
    onChange: (name, state) => void states.set(name, [...(states.get(name) ?? []), state]),
    policy: { backoff: { min: 20, max: 100 }, steadyMs: 60_000, maxFailures: 4 },
  })
  running.push(created)
  await created.start()
  const phase = (name: string) => states.get(name)?.at(-1)?.phase
  return { services: created, phase, states }
}

const until = (condition: () => boolean, what: string) =>
  untilTrue(condition, () => `${what}:\n${lines.join("\n")}\n`)

/** Listens on a port and has a child that does not exit by itself. */
const listening = (name: string, port: number): Service => ({
  name,
  group: "ttyd",
  command: [
    "sh",
    "-c",
    `sleep 600 & exec ${process.execPath} -e 'console.log("hello from ${name}"); Bun.serve({ hostname: "127.0.0.1", port: ${port}, fetch: () => new Response("") })'`,
  ],
  answersOn: { port },
})

test("a service is ready when its own process listens, and its output is kept", async () => {
  const port = freePort()
  const { services, phase } = await start([listening("one", port)])
  await until(() => phase("one") === "ready", "readiness")
  await until(() => services.output("one").length > 0, "output")
  expect(services.output("one")).toEqual(["hello from one"])
})

test("a killed service is restarted on the same port", async () => {
  const port = freePort()
  const { phase, states } = await start([listening("one", port)])
  await until(() => phase("one") === "ready", "readiness")
  const first = listenerOf(port)
  process.kill(first?.pid ?? 0, "SIGKILL")
  await until(
    () => states.get("one")?.filter((state) => state.phase === "ready").length === 2,
    "return",
  )
  const second = listenerOf(port)
  expect(second?.pid).not.toBe(first?.pid)
  expect(second).toBeDefined()
})

test("a service waits for the service that it needs", async () => {
  const port = freePort()
  const mark = join(root, "started")
  const dependent: Service = {
    name: "second",
    group: "vnc",
    command: ["sh", "-c", `date +%s%N > ${mark}; exec sleep 600`],
    needs: "first",
  }
  const { states, phase } = await start([dependent, { ...listening("first", port) }])
  await until(() => phase("second") === "ready", "second")
  expect(states.get("first")?.some((state) => state.phase === "ready")).toBeTrue()
  await until(() => Bun.file(mark).size > 0, "mark")
})

test("a service that is not installed is off and the others run", async () => {
  const missing: Service = { name: "gone", group: "ttyd", command: ["no-such-program-at-all"] }
  const fine: Service = { name: "fine", group: "ttyd", command: ["sleep", "600"] }
  const { phase, states } = await start([missing, fine])
  await until(() => phase("gone") === "off" && phase("fine") === "ready", "both")
  expect(states.get("gone")?.at(-1)).toMatchObject({
    why: "no-such-program-at-all is not installed",
  })
})

test("missing programs are known before the start, except optional ones", () => {
  const created = createServices({
    services: [
      { name: "gone", group: "vnc", command: ["no-such-program-at-all"] },
      { name: "frill", group: "vnc", command: ["no-such-frill-at-all"], optional: true },
      { name: "fine", group: "ttyd", command: ["sleep", "600"] },
    ],
    display: ":4711",
    home: root,
    cwd: root,
    environment: { PATH: process.env["PATH"] ?? "" },
    owner: root,
    clock: systemClock,
    log: recordingLog(lines),
    onChange: () => {},
  })
  expect(created.missing()).toEqual([{ group: "vnc", program: "no-such-program-at-all" }])
})

test("a service that keeps crashing has failed, and its last output is in the log", async () => {
  const bad: Service = {
    name: "bad",
    group: "ttyd",
    command: ["sh", "-c", "echo 'cannot open the thing' >&2; sleep 0.05; exit 3"],
    answersOn: { port: 1 },
  }
  const { phase, states } = await start([bad])
  await until(() => phase("bad") === "failed", "giving up")
  expect(states.get("bad")?.at(-1)).toMatchObject({
    why: "failed 4 times in a row: exited with code 3",
  })
  expect(lines.join("\n")).toContain("cannot open the thing")
})

test("stopping ends all processes of the services, even outside their process group", async () => {
  const runaway: Service = {
    name: "runaway",
    group: "ttyd",
    command: ["sh", "-c", "(setsid sleep 601 &); sleep 602 & exec sleep 603"],
  }
  const { services, phase } = await start([runaway])
  await until(() => phase("runaway") === "ready", "readiness")
  const ours = () => carriersOf("SANDPIPER_SERVICE_OF", root, listProcesses())
  await until(() => ours().length === 3, "three processes")
  await services.stop()
  expect(ours()).toEqual([])
})

test("services of a previous runner are ended before new ones start", async () => {
  const port = freePort()
  const left = Bun.spawn([...listening("left", port).command], {
    env: { PATH: process.env["PATH"] ?? "", SANDPIPER_SERVICE_OF: root },
    stdio: ["ignore", "ignore", "ignore"],
    detached: true,
  })
  await until(() => listenerOf(port) !== undefined, "the one left behind")
  const { phase } = await start([listening("one", port)])
  await until(() => phase("one") === "ready", "readiness")
  expect(await left.exited).not.toBe(0)
  expect(lines.join("\n")).toContain("services.stale-ended")
})

describe("the service table", () => {
  const table = servicesOf({
    display: ":99",
    workDir: "/workspace/it's here",
    ports: { vscode: 8765, vnc: 6080, rawVnc: 5900, ttyd: 7681 },
  })

  test("every service listens on loopback only", () => {
    const lineOf = (name: string) => table.find((one) => one.name === name)?.command.join(" ") ?? ""
    expect(lineOf("xvfb")).toContain("-nolisten tcp")
    expect(lineOf("x11vnc")).toContain("-localhost")
    expect(lineOf("websockify")).toContain("127.0.0.1:6080 127.0.0.1:5900")
    expect(lineOf("code-server")).toContain("--bind-addr 127.0.0.1:8765")
    expect(lineOf("ttyd")).toContain("-i 127.0.0.1 -p 7681")
  })

  test("every needed service is in the table", () => {
    const names = new Set(table.map(({ name }) => name))
    for (const { needs } of table) if (needs !== undefined) expect(names).toContain(needs)
  })

  test("the command lines of services occur in the service table only", async () => {
    const script = await readFile(join(import.meta.dir, "../../../start.sh"), "utf8")
    for (const { command } of table) expect(script).not.toMatch(new RegExp(`\\b${command[0]} -`))
  })
})

test("a service sees only the environment that it is given", async () => {
  const file = join(root, "environment")
  await writeFile(file, "")
  const nosy: Service = {
    name: "nosy",
    group: "ttyd",
    command: ["sh", "-c", `env > ${file}; exec sleep 600`],
  }
  await start([nosy])
  await until(() => Bun.file(file).size > 0, "environment")
  const names = (await readFile(file, "utf8")).match(/^\w+(?==)/gm) ?? []
  expect(
    names.filter((name) => !["PWD", "SHLVL", "_", "OLDPWD"].includes(name)).toSorted(),
  ).toEqual(["DISPLAY", "HOME", "PATH", "SANDPIPER_SERVICE_OF"])
})

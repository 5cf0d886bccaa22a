/** Services of the agent with real processes. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { carriersOf, listProcesses } from "../../../../src/runner/host/processes.ts"
import type { ServiceSpec } from "../../../../src/runner/sandbox/services/service-store.ts"
import { createManualClock } from "../../../kit/clock.ts"
import { freePort } from "../../../kit/free-port.ts"
import { untilEqual, untilTrue } from "../../../kit/until-true.ts"
import { createTestServices, type TestServices } from "./kit.ts"

let kit: TestServices
beforeEach(() => {
  kit = createTestServices()
})
afterEach(() => kit.end())

const spec = (name: string, command: string, change: Partial<ServiceSpec> = {}): ServiceSpec => ({
  name,
  command,
  cwd: ".",
  port: undefined,
  ...change,
})

const until = (condition: () => boolean | Promise<boolean>, what: string) =>
  untilTrue(condition, () => `${what}:\n${kit.log.join("\n")}\n`)
const owned = () => carriersOf("SANDPIPER_APP_SERVICES_OF", kit.root, listProcesses())
const textOf = async (name: string) => String(await kit.services.logOf(name)?.tail(10_000))
const serve = (port: number) =>
  `exec bun -e 'Bun.serve({ port: ${port}, hostname: "127.0.0.1", fetch: () => new Response("up") })'`

test("a service is running when it listens on its port, and its port is listed", async () => {
  const port = freePort()
  const gate = join(kit.root, "gate")
  const command = `until [ -e '${gate}' ]; do sleep 0.02; done; ${serve(port)}`
  await kit.services.start(spec("web", command, { port }))
  expect(kit.services.find("web")?.status).toBe("starting")
  await writeFile(gate, "")
  await until(() => kit.services.find("web")?.status === "running", "running")
  expect(kit.services.find("web")?.listening).toEqual([port])
  expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe("up")
})

test("starting a service of the same name ends the processes of the one before", async () => {
  await kit.services.start(spec("a", "sleep 1000 & exec sleep 1000"))
  await until(() => owned().length === 2, "two processes")
  const before = owned().map(({ pid }) => pid)
  await kit.services.start(spec("a", "exec sleep 2000"))
  await until(() => owned().length === 1, "one process")
  expect(before).not.toContain(owned()[0]?.pid ?? 0)
  expect(kit.services.list()).toHaveLength(1)
})

test("stopping a service also ends a daemon that left its process group", async () => {
  await kit.services.start(spec("a", "setsid sleep 1000 & exec sleep 1000"))
  await until(() => owned().length === 2, "two processes")
  expect(await kit.services.stop("a")).toBe(true)
  expect(owned()).toEqual([])
  expect(kit.services.find("a")).toMatchObject({ status: "stopped", pid: null })
  expect(await kit.services.stop("b")).toBe(false)
})

test("a crashed service is restarted, and fails after repeated crashes with its reason in the log", async () => {
  await kit.services.start(spec("a", "echo attempt; exit 3"))
  await until(() => kit.services.find("a")?.status === "failed", "failed")
  expect(kit.services.find("a")?.why).toContain("exited with code 3")
  // The output of a process can come after its end.
  await untilEqual(
    async () => (await textOf("a")).match(/attempt/g)?.length,
    4,
    "four attempts in the log",
  )
  expect((await textOf("a")).match(/attempt/g)).toHaveLength(4)
  expect(await textOf("a")).toContain("[sandpiper] exited with code 3; it is started again")
})

test("a command that exits with code 0 has finished and is not restarted", async () => {
  const clock = createManualClock()
  const other = createTestServices({ clock })
  try {
    await other.services.start(spec("a", "echo done"))
    await until(() => other.services.find("a")?.status === "stopped", "stopped")
    await until(
      async () => String(await other.services.logOf("a")?.tail(100)) === "done\n",
      "output of the command",
    )
    // Far above the longest pause before a restart.
    clock.advance(3_600_000)
    expect(other.services.find("a")).toMatchObject({ status: "stopped", restarts: 0, pid: null })
    await other.services.suspend()
    expect(String(await other.services.logOf("a")?.tail(100))).toBe("done\n")
  } finally {
    await other.end()
  }
})

test("the log keeps the end of a long output and is bounded on the disk", async () => {
  await kit.services.start(spec("a", "seq 1 600000; echo the end"))
  await until(() => kit.services.find("a")?.status === "stopped", "stopped")
  await until(
    async () => (await textOf("a")).endsWith("600000\nthe end\n"),
    "the end of the output",
  )
  const files = await Promise.all(
    ["a.log", "a.log.1"].map((name) => readFile(join(kit.root, ".logs", name)).catch(() => "")),
  )
  expect(files.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(2.5 * 1024 * 1024)
})

test("a follower of the log gets what is written after it began", async () => {
  await kit.services.start(spec("a", "read line < go; echo $line; exec sleep 1000"))
  await Bun.spawn(["mkfifo", join(kit.root, "go")]).exited
  let text = ""
  const log = kit.services.logOf("a")
  const stop = log?.follow((bytes) => {
    text += Buffer.from(bytes).toString()
  })
  await kit.services.restart("a")
  await writeFile(join(kit.root, "go"), "hello\n")
  await until(() => text.includes("hello"), "the line")
  stop?.()
})

test("a runner that starts after a kill ends the old processes and starts the wanted services", async () => {
  kit.store.save({ ...spec("a", "exec sleep 1000"), wanted: true })
  kit.store.save({ ...spec("b", "exec sleep 1000"), wanted: false })
  // Left behind by the runner that was killed.
  Bun.spawn(["sleep", "1000"], {
    env: { SANDPIPER_APP_SERVICES_OF: kit.root, SANDPIPER_APP_SERVICE: "a" },
  })
  await until(() => owned().length === 1, "one process")
  const [old] = owned()
  const next = kit.again()
  await next.resume()
  await until(() => next.find("a")?.status === "running", "running")
  expect(owned().map(({ pid }) => pid)).not.toContain(old?.pid ?? 0)
  expect(owned()).toHaveLength(1)
  expect(next.find("b")?.status).toBe("stopped")
})

test("a folder outside the workspace is refused and nothing is started", async () => {
  for (const cwd of ["..", "/etc", "missing", "link"]) {
    await Bun.spawn(["ln", "-sfn", "/etc", join(kit.root, "link")]).exited
    expect(kit.services.start(spec("a", "true", { cwd }))).rejects.toMatchObject({ status: 400 })
  }
  expect(kit.services.list()).toEqual([])
})

test("a service runs in its folder with its port and none of the runner's variables", async () => {
  await mkdir(join(kit.root, "app"))
  process.env["RUNNER_TOKEN"] = "secret-of-the-runner"
  try {
    await kit.services.start(spec("a", "pwd; env; echo the end", { cwd: "app", port: 4321 }))
    await until(async () => (await textOf("a")).endsWith("the end\n"), "the end of the output")
  } finally {
    delete process.env["RUNNER_TOKEN"]
  }
  await until(() => kit.services.find("a")?.status === "stopped", "stopped")
  const text = await textOf("a")
  expect(text).toContain(`${join(kit.root, "app")}\n`)
  expect(text).toContain("PORT=4321\n")
  expect(text).not.toContain("RUNNER_TOKEN")
})

test("100 services that are started and suspended leave no process behind", async () => {
  await Promise.all(
    Array.from({ length: 100 }, (_, index) =>
      kit.services.start(spec(`s${index}`, "setsid sleep 1000 & exec sleep 1000")),
    ),
  )
  await until(() => owned().length === 200, "200 processes")
  await kit.services.suspend()
  expect(owned()).toEqual([])
  expect(kit.services.list().every(({ status }) => status === "stopped")).toBe(true)
})

/** The findings of `sandpiper doctor`. */
import { afterEach, beforeEach, expect, onTestFinished, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { examine, versionIn } from "../../src/cli/doctor.ts"
import { configOf, createSandbox, type Sandbox } from "../kit/runner.ts"

let sandbox: Sandbox
let agent: ReturnType<typeof Bun.serve>
beforeEach(async () => {
  agent = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response("", { headers: { date: new Date().toUTCString() } }),
  })
  sandbox = await createSandbox({ url: `ws://127.0.0.1:${agent.port}/`, token: "unused" })
})
afterEach(async () => {
  await agent.stop(true)
  await sandbox.remove()
})

/** Programs may take this long to print their version, however busy the machine is. */
const PATIENCE_MS = 50_000

/** With a program in OpenCode's place that prints its version at once, unless the test names another one. */
const look = async (env: Record<string, string> = {}, versionLimitMs = PATIENCE_MS) => {
  const quick = join(sandbox.root, "quick-opencode")
  await writeFile(quick, "#!/bin/sh\necho 1.2.3\n", { mode: 0o755 })
  const settings = configOf({ ...sandbox.environment, OPENCODE_BIN: quick, ...env })
  const { lines, healthy } = await examine(settings, versionLimitMs)
  return {
    healthy,
    line: (what: string) => lines.find((line) => line.slice(6).startsWith(what)) ?? "",
  }
}

test("a machine without problems is healthy and has a line per check", async () => {
  const { healthy, line } = await look({ OPENCODE_BIN: sandbox.environment["OPENCODE_BIN"] ?? "" })
  expect(line("opencode")).toMatch(/^ok +opencode +\S+opencode 1\.18\.33$/)
  expect(line("git")).toMatch(/^ok +git +\/\S+ 2\.\d+/)
  expect(line("workspace")).toMatch(/^ok .* is writable, [\d.]+ GiB free$/)
  expect(line("state directory")).toStartWith("ok")
  expect(line("session agent")).toStartWith("ok")
  expect(line("clock")).toMatch(/^ok .* -?\d+ s from the session agent's$/)
  expect(line("model")).toStartWith("warn")
  expect(healthy).toBeTrue()
})

test("a program that does not print its version in time is reported with the limit", async () => {
  const slow = join(sandbox.root, "slow-opencode")
  await writeFile(slow, "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 })
  const { healthy, line } = await look({ OPENCODE_BIN: slow }, 300)
  expect(line("opencode")).toBe(
    `warn  opencode           ${slow}: no answer to --version within 0.3 s`,
  )
  expect(healthy).toBeTrue()
})

test("a missing OpenCode makes the machine unhealthy", async () => {
  const { healthy, line } = await look({ OPENCODE_BIN: "/nonexistent/opencode" })
  expect(line("opencode")).toBe(
    "bad   opencode           OPENCODE_BIN: /nonexistent/opencode is not an executable file",
  )
  expect(healthy).toBeFalse()
})

test("a workspace that is not writable is reported with the reason", async () => {
  await writeFile(join(sandbox.root, "file"), "")
  const { healthy, line } = await look({ WORK_DIR: join(sandbox.root, "file/below") })
  expect(line("workspace")).toMatch(/^bad .*ENOTDIR/)
  expect(healthy).toBeFalse()
})

test("a port that is in use is reported with its process", async () => {
  const { healthy, line } = await look({ GATEWAY_PORT: String(agent.port) })
  expect(line(`port ${agent.port}`)).toContain(`held by pid ${process.pid}`)
  expect(healthy).toBeFalse()
})

test("an unreachable session agent is reported", async () => {
  const { healthy, line } = await look({ DO_WS_URL: "ws://127.0.0.1:1/" })
  expect(line("session agent")).toStartWith("bad")
  expect(healthy).toBeFalse()
})

test("a clock that is minutes off is reported", async () => {
  const wrong = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () =>
      new Response("", { headers: { date: new Date(Date.now() - 600_000).toUTCString() } }),
  })
  onTestFinished(() => wrong.stop(true))
  const { line } = await look({ DO_WS_URL: `ws://127.0.0.1:${wrong.port}/` })
  expect(line("clock")).toMatch(/^bad .* 6\d\d s from/)
})

test("a requested service that is not installed is a warning", async () => {
  const { healthy, line } = await look({ SANDPIPER_SERVICES: "all", PATH: "/nonexistent" })
  expect(line("ttyd")).toBe("warn  ttyd               not installed")
  expect(healthy).toBeTrue()
})

test("a version is found after log lines, and none is invented", () => {
  const log = "[2026-01-02T03:04:05.678Z] info  Wrote default config file"
  expect(versionIn(`${log}\n4.117.0 7a4f8c with Code 1.99.3`)).toBe("4.117.0")
  expect(versionIn("git version 2.39.5")).toBe("2.39.5")
  expect(versionIn(log)).toBe("")
})

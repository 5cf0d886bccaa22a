/** The compiled binary's command line: help, errors, `doctor` on a laptop, and a reader that ends early. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { unsupportedSystem } from "../../src/cli/supported-system.ts"
import { freePort } from "../kit/free-port.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"

const binary = requireBinary()
let sandbox: Sandbox
let env: Record<string, string>

beforeAll(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = sandbox.environment
  env = { PATH, HOME, OPENCODE_BIN }
})
afterAll(() => sandbox.remove())

const sandpiper = (...args: readonly string[]) =>
  runToEnd([binary, ...args], { env, cwd: sandbox.workDir })

test("the help of a command is about this command and shows defaults", async () => {
  const { out, code } = await sandpiper("chat", "--help")
  expect(code).toBe(0)
  expect(out).toContain('sandpiper chat [--json] ["text"] [flags]')
  expect(out).toContain("-m is --model")
  expect(out).not.toContain("DISPLAY")
  expect(out).not.toContain("--runner-token")
  expect((await sandpiper("up", "--help")).out).toMatch(/--gateway-port.*default 9000\)/)
  expect((await sandpiper("help", "forget")).out).toContain("sandpiper forget DIR")
  expect((await sandpiper("help", "settings")).out).toMatch(/TURN_LIMIT_SECONDS.*\(default 7200\)/)
})

test("an argument that a command does not take is called an argument", async () => {
  const { err, code } = await sandpiper("doctor", "extra")
  expect(err).toContain('unexpected argument "extra"')
  expect(code).toBe(2)
})

test("up in a directory that does not exist says so and creates nothing", async () => {
  const before = readdirSync(sandbox.root, { recursive: true }).length
  const { err, code } = await sandpiper("up", "mistyped")
  expect(err).toContain(
    "workspace/mistyped does not exist: create the directory, or name another one",
  )
  expect(code).toBe(2)
  expect(readdirSync(sandbox.root, { recursive: true })).toHaveLength(before)
})

test("doctor creates nothing, and calls a laptop without /workspace healthy", async () => {
  const before = readdirSync(sandbox.root, { recursive: true }).length
  // It also looks at its ports, which another program of this machine may use.
  const ports = {
    GATEWAY_PORT: String(freePort()),
    OPENCODE_URL: `http://127.0.0.1:${freePort()}`,
  }
  const given = { env: { ...env, ...ports }, cwd: sandbox.workDir }
  const { out, code } = await runToEnd([binary, "doctor"], given)
  expect(out).toMatch(/^ok +workspace .* is writable/m)
  expect(out).toContain(sandbox.workDir)
  expect(out).toMatch(/^ok +state directory .* can be created in /m)
  expect(out).not.toContain("/workspace:")
  expect(readdirSync(sandbox.root, { recursive: true })).toHaveLength(before)
  expect(await readdir(sandbox.workDir)).toEqual([])
  expect(code).toBe(0)
})

test("a reader that ends early ends the program without a stack", async () => {
  const { out, err, code } = await runToEnd(
    ["bash", "-c", `set -o pipefail; "$0" --help | head -1`, binary],
    { env },
  )
  expect(out).toStartWith("sandpiper ")
  expect(err).toBe("")
  expect(code).toBe(0)
})

test("an unsupported system is named in one sentence with what works instead", () => {
  expect(unsupportedSystem("linux", "x64")).toBeUndefined()
  const sentence = unsupportedSystem("darwin", "arm64") ?? ""
  expect(sentence).toContain("does not run on darwin/arm64")
  expect(sentence).toContain("docker run")
  expect(sentence).not.toContain("\n")
})

/**
 * `sandpiper up` on a disk that becomes full: the chat says so in one sentence, and goes on when there is room. The tests share
 * one `up`, one after the other.
 */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { requireRoot } from "../kit/boot.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTerminal, type Terminal } from "../kit/terminal.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(180_000)
const binary = requireBinary()
let sandbox: Sandbox
let disk: string
let terminal: Terminal

beforeAll(async () => {
  requireRoot()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  disk = join(sandbox.root, "disk")
  mkdirSync(disk)
  expect(Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk]).exitCode).toBe(0)
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = sandbox.environment
  terminal = startTerminal([binary, "up"], {
    cwd: sandbox.workDir,
    env: { PATH, HOME, OPENCODE_BIN, GATEWAY_PORT: "0", SANDPIPER_STATE_DIR: join(disk, "state") },
  })
  await terminal.seen("Ready. The agent works in")
})
// A failed test must not leave a full disk to the next one.
afterEach(() => rmSync(join(disk, "filler"), { force: true }))
afterAll(async () => {
  // It ends OpenCode as well; a killed `up` leaves OpenCode to the next one.
  const { child } = terminal
  child.kill("SIGTERM")
  try {
    await untilTrue(() => child.exitCode !== null || child.signalCode !== null, "end of `up`")
  } finally {
    await terminal.kill()
    Bun.spawnSync(["umount", "-l", disk])
    await sandbox.remove()
  }
})

/** Leaves no byte. */
const fill = () => {
  const piece = Buffer.alloc(4096)
  try {
    for (;;) appendFileSync(join(disk, "filler"), piece)
  } catch {
    // It is full.
  }
}

test("a prompt on a full disk fails with one plain sentence, and the next one works when there is room", async () => {
  terminal.type("hello before\r")
  await terminal.seen("not an LLM._")
  fill()
  terminal.type("run: echo on-a-full-disk\r")
  await terminal.seen("✗ the disk is full, so nothing can be stored: free some space")
  rmSync(join(disk, "filler"))
  terminal.type("run: echo with-room-$((40 + 2))\r")
  await terminal.seen(/^ *with-room-42$/m)
})

test("a turn during which the disk fills up ends visibly without a stack, and the next prompt works when there is room", async () => {
  await terminal.seen(/\n>$/)
  const inWorkspace = (name: string) => join(sandbox.workDir, name)
  // The workspace is on another disk.
  const wait = "touch begun.txt; until [ -e go.txt ]; do sleep 0.1; done"
  terminal.type(`run: ${wait}; echo late-$((40 + 3)); touch said.txt\r`)
  await untilTrue(() => existsSync(inWorkspace("begun.txt")), "begin of the command")
  fill()
  writeFileSync(inWorkspace("go.txt"), "")
  await untilTrue(() => existsSync(inWorkspace("said.txt")), "end of the command")
  // Sleep: OpenCode and the runner meet the full disk for a while. The test holds after any time.
  await Bun.sleep(3000)
  rmSync(join(disk, "filler"))
  // OpenCode stores its session on the same disk: the turn has its words, or ends as failed.
  await terminal.seen(/^ *late-43$|✗ OpenCode was stopped during the turn/m)
  await terminal.seen(/\n>$/)
  terminal.type("run: echo again-$((40 + 4))\r")
  await terminal.seen(/^ *again-44$/m)
  expect(terminal.child.exitCode).toBeNull()
  // No stack and no source reached the terminal.
  expect(terminal.raw()).not.toContain("bun:sqlite")
  expect(terminal.raw()).not.toMatch(/\n\s+at .*:\d+:\d+/)
})

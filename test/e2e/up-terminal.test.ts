/**
 * The chat of `sandpiper up` in a terminal: permissions, escape sequences, paste, typing during an answer, Ctrl-C, history. Each test
 * has a terminal of its own.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTerminal, type Terminal } from "../kit/terminal.ts"

const binary = requireBinary()
const ESC = "\u001B"
let sandbox: Sandbox
let terminal: Terminal

beforeEach(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = sandbox.environment
  terminal = startTerminal([binary, "up"], {
    cwd: sandbox.workDir,
    env: { PATH, HOME, OPENCODE_BIN, GATEWAY_PORT: "0", SANDPIPER_PERMISSIONS: "relay" },
  })
  await terminal.seen("Ready. The agent works in")
  await terminal.seen(/^>$/m)
})
afterEach(async () => {
  await terminal.stop()
  await sandbox.remove()
})

/** The text below the last line that contains `mark`. */
const after = (mark: string): string => terminal.text().slice(terminal.text().lastIndexOf(mark))
const idle = () => terminal.seen(/demo model, not an LLM\._\n+>$/)

test("a permission request shows the command; other words leave it open, and y runs the command", async () => {
  terminal.type("run: echo allowed-$((20 + 1)) > allowed.txt; cat allowed.txt\r")
  await terminal.seen("? The agent asks for a permission: bash")
  expect(after("? The agent")).toContain(
    "  echo allowed-$((20 + 1)) > allowed.txt\n  cat allowed.txt\n",
  )
  await terminal.seen("y: allow once, a: allow always, n: reject")
  terminal.type("maybe\r")
  await terminal.seen(/> maybe\n.*y: allow once, a: allow always, n: reject/)
  expect(await Bun.file(join(sandbox.workDir, "allowed.txt")).exists()).toBeFalse()
  terminal.type("y\r")
  await terminal.seen(/^ *allowed-21$/m)
  await idle()
  expect(terminal.text()).not.toContain("You said")
})

test("n rejects a permission, and the turn ends without the command", async () => {
  terminal.type("run: touch rejected.txt\r")
  await terminal.seen(/touch rejected.txt\n.*y: allow once/)
  terminal.type("n\r")
  await terminal.seen(/✗ bash/)
  await terminal.seen(/\n>$/)
  expect(await Bun.file(join(sandbox.workDir, "rejected.txt")).exists()).toBeFalse()
})

test("escape sequences in the output of a tool are shown and have no effect", async () => {
  terminal.type(`run: printf '\\033]0;owned\\007\\033[2Jcleared-%s' here\r`)
  await terminal.seen(/cleared-%s' here\n.*y: allow once/)
  const before = terminal.raw().length
  terminal.type("a\r")
  await terminal.seen("cleared-here")
  await idle()
  const written = terminal.raw().slice(before)
  expect(written).not.toContain(`${ESC}]0;`)
  expect(written).not.toContain(`${ESC}[2J`)
  expect(written).toContain("␛]0;owned␇␛[2Jcleared-here")
  // The screen was not cleared.
  expect(terminal.text()).toContain("Ready. The agent works in")
})

test("a pasted text of several lines is one prompt", async () => {
  terminal.type(`${ESC}[200~write: poem.txt\rfirst line\r\rlast line${ESC}[201~`)
  await terminal.seen(/> write: poem.txt\n {2}first line\n\n {2}last line$/)
  terminal.type("\r")
  await terminal.seen(/y: allow once(?![\s\S]*_I am)/)
  terminal.type("y\r")
  await idle()
  const written = await Bun.file(join(sandbox.workDir, "poem.txt")).text()
  expect(written.trim()).toBe("first line\n\nlast line")
})

test("text typed during an answer stays on its own line below it; Ctrl-C clears the text, then stops the turn, then exits", async () => {
  terminal.type("run: for i in 1 2 3 4; do echo tick-$i; sleep 1; done; sleep 600\r")
  await terminal.seen(/ {2}sleep [\s\S]*y: allow once/)
  terminal.type("y\r")
  await terminal.seen(/\ntick-1\n/)
  terminal.type("half a thought")
  await terminal.seen(/\ntick-2\n(?:tick-\d\n)*\n*> half a thought$/)
  await terminal.seen(/waiting for the agent, \d+ s\n> half a thought$/)
  terminal.type("\u0003")
  await terminal.seen(/waiting for the agent, \d+ s\n>$/)
  expect(terminal.text()).not.toContain("half a thought")
  terminal.type("\u0003")
  await terminal.seen(/ {2}stopped[\s\S]*\n>$/)
  // The answers to permissions are not in the history: one step back is the prompt.
  terminal.type(`${ESC}[A`)
  await terminal.seen(/\n> run: for i in 1 2 3[^\n]*$/)
  terminal.type("\u0003")
  await terminal.seen(/\n>$/)
  expect(terminal.child.exitCode).toBeNull()
  terminal.type("\u0003")
  expect(await terminal.exited).toBe(130)
})

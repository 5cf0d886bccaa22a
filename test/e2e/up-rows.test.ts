/**
 * What people stumbled over in `sandpiper up`, and the test of each: most drive the compiled binary in a terminal
 * (`test/kit/terminal.ts`), the others say why not. This file checks that each of those tests exists.
 */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { runToEnd } from "../kit/run-to-end.ts"
import { repositoryRoot, runnerFromSource } from "../kit/runner.ts"

interface Row {
  readonly what: string
  readonly file: string
  /** The start of the test's name. */
  readonly test: string
  /** Absent if the test uses a terminal. */
  readonly noTerminal?: string
}

const rows: readonly Row[] = [
  {
    what: "a prompt works in the directory of its own `up`, and a second `up` ends nothing of the first",
    file: "soak/up-places.soak.ts",
    test: "two ups in two directories and three in the same one",
  },
  {
    what: "an ended session does not end `up` in this directory",
    file: "soak/up-places.soak.ts",
    test: "an ended session is not continued",
  },
  {
    what: "the lock of a state directory ends with its owner",
    file: "soak/up-places.soak.ts",
    test: "a lock ends with its owner",
  },
  {
    what: "half an answer is never done",
    file: "soak/up-rows.soak.ts",
    test: "half an answer never counts as done",
  },
  {
    what: "a permission shows its command and takes y, n or a",
    file: "e2e/up-terminal.test.ts",
    test: "a permission request shows the command",
  },
  {
    what: "escape sequences of a tool have no effect on the terminal",
    file: "e2e/up-terminal.test.ts",
    test: "escape sequences in the output of a tool are shown",
  },
  {
    what: "a pasted text is one prompt",
    file: "e2e/up-terminal.test.ts",
    test: "a pasted text of several lines is one prompt",
  },
  {
    what: "text typed during an answer stays below it, and Ctrl-C clears it first",
    file: "e2e/up-terminal.test.ts",
    test: "text typed during an answer stays on its own line",
  },
  {
    what: "without a model a prompt says so at once",
    file: "soak/no-model.soak.ts",
    test: "without a model a prompt and a command fail at once",
    noTerminal: "`up` always has a model, at least the demo model",
  },
  {
    what: "a model that cannot be reached is named with its address",
    file: "soak/up-rows.soak.ts",
    test: "a model whose address cannot be reached is named",
  },
  {
    what: "a posted config survives `up`, and bad parts of it are refused or reported",
    file: "soak/up-rows.soak.ts",
    test: "a config that a client posts is kept",
  },
  {
    what: "states of retries are removed",
    file: "soak/up-rows.soak.ts",
    test: "a retry of the model is shown while it lasts",
  },
  {
    what: "`doctor` creates nothing and finds a laptop healthy",
    file: "e2e/command-line.test.ts",
    test: "doctor creates nothing",
    noTerminal: "its output is the same without one; up-rows.soak.ts runs it in a terminal too",
  },
  {
    what: "a full disk is one sentence, and the chat goes on",
    file: "soak/up-full-disk.soak.ts",
    test: "a prompt on a full disk fails with one plain sentence",
  },
  {
    what: "an unknown model is one sentence",
    file: "soak/up-rows.soak.ts",
    test: "an unknown model is one sentence",
  },
  {
    what: "a reader that ends early causes no stack",
    file: "soak/up-rows.soak.ts",
    test: "a reader that ends early ends chat --json without a stack",
  },
  {
    what: "a taken port of OpenCode is named, and no process is started again and again",
    file: "soak/up-rows.soak.ts",
    test: "a run whose OpenCode port is taken says which process has it",
  },
  {
    what: "turns of OpenCode's TUI are seen and not aborted",
    file: "soak/up-rows.soak.ts",
    test: "a turn of OpenCode's own TUI is shown in the terminal",
  },
  {
    what: "each command has its own help, and words that are too many are called arguments",
    file: "soak/up-rows.soak.ts",
    test: "the help of every command is its own page",
  },
  {
    what: "`up` exits with 1 after a failed turn",
    file: "soak/up-rows.soak.ts",
    test: "a failed turn is one sentence in the terminal",
  },
  {
    what: "a runner is back a moment after its hub, also with the commands of docs/durable-object.md",
    file: "stack/wrangler.stack.ts",
    test: "a runner joins `wrangler dev` over ws://",
    noTerminal: "runner and hub have none; link-hub-back.soak.ts measures both hosts of the hub",
  },
  {
    what: "children of `up` start when the runner is root with AGENT_USER",
    file: "soak/hub-children.soak.ts",
    test: "children of a hub that runs as root with AGENT_USER start",
    noTerminal: "children have none",
  },
  {
    what: "an unsupported system is one sentence and exit code 2",
    file: "e2e/up-rows.test.ts",
    test: "on an unsupported system up says what works",
    noTerminal: "the system is simulated in the program's source",
  },
]

const TERMINAL = "kit/terminal.ts"

test("each of these has a test, in a terminal unless the row says why not", async () => {
  for (const row of rows) {
    const source = await Bun.file(join(import.meta.dir, "..", row.file)).text()
    const isThere = source.includes(`test("${row.test}`) || source.includes(`  "${row.test}`)
    expect({ ...row, isThere }).toEqual({ ...row, isThere: true })
    if (row.noTerminal === undefined) expect(source).toContain(TERMINAL)
  }
})

test("on an unsupported system up says what works in one sentence and exits with 2", async () => {
  const [bun = "", main = ""] = runnerFromSource
  const preload = join(import.meta.dir, "../kit/programs/as-macos.ts")
  const { out, err, code } = await runToEnd([bun, "--preload", preload, main, "up"], {
    env: { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent" },
    cwd: repositoryRoot,
  })
  expect(out).toBe("")
  expect(err.trim().split("\n")).toHaveLength(1)
  expect(err).toContain("sandpiper does not run on darwin/arm64")
  expect(err).toContain("docker run")
  expect(code).toBe(2)
})

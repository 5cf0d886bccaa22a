/** The image's `up` command without the image: start.sh as PID 1 of a namespace, in a terminal, with services. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { programsOf, requireRoot } from "../kit/boot.ts"
import { freePort } from "../kit/free-port.ts"
import { createSandbox, repositoryRoot, requireBinary, type Sandbox } from "../kit/runner.ts"
import { untilFound } from "../kit/until-true.ts"

let sandbox: Sandbox
let child: Bun.Subprocess
let screen = ""

/** All output has come: the terminal is closed. */
let isOver = false

const seen = (what: string | RegExp): Promise<string> =>
  untilFound(
    () => {
      const found =
        typeof what === "string" ? screen.includes(what) && what : what.exec(screen)?.[0]
      if (!found && isOver) throw new Error(`the end came before ${what}:\n${screen}`)
      return found
    },
    () => `${what} on the screen:\n${screen}\n`,
  )

/** A folder with links to every program of PATH except one, to simulate a machine where that one is not installed. */
const pathWithout = async (program: string, path: string, folder: string): Promise<string> => {
  if (Bun.which(program, { PATH: path }) === null) return path
  await mkdir(folder)
  for (const directory of path.split(delimiter)) {
    for (const name of await readdir(directory).catch(() => [])) {
      // The first directory of PATH that has the name wins; later links of the same name fail.
      if (name !== program) await symlink(join(directory, name), join(folder, name)).catch(() => {})
    }
  }
  return folder
}

beforeAll(async () => {
  requireBinary()
  requireRoot()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const [gateway, editor] = [freePort(), freePort()]
  const programs = programsOf(sandbox)
  // A fake editor: the runner checks that it listens, the test reads its page.
  const page = `Bun.serve({ unix: process.env.AT, fetch: () => new Response("the editor") })`
  const serve = `while [ "$1" != --socket ]; do shift; done\nAT="$2" exec ${process.execPath} -e '${page}'`
  await writeFile(join(programs, "code-server"), `#!/bin/sh\n${serve}\n`, { mode: 0o755 })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  const namespace = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
  child = Bun.spawn([...namespace, "bash", join(repositoryRoot, "start.sh"), "up"], {
    env: {
      PATH: `${programs}:${await pathWithout("ttyd", PATH, join(sandbox.root, "path"))}`,
      HOME,
      OPENCODE_BIN,
      SANDPIPER_STATE_DIR,
      WORK_DIR: sandbox.workDir,
      GATEWAY_PORT: String(gateway),
      VSCODE_PORT: String(editor),
      SANDPIPER_SERVICES: "vscode,ttyd",
      // This machine has no user `agent`.
      AGENT_USER: "root",
      TERM: "xterm",
    },
    terminal: {
      cols: 400,
      rows: 50,
      data: (_terminal, bytes) => {
        screen += new TextDecoder().decode(bytes)
      },
      exit: () => {
        isOver = true
      },
    },
  })
})

afterAll(async () => {
  child.kill("SIGKILL")
  await child.exited
  await sandbox.remove()
})

test("up in a terminal runs a working chat and prints links that open the services only with their token", async () => {
  await seen("Ready. The agent works in")
  expect(screen).toContain(sandbox.workDir)
  const link = await seen(/http:\/\/box-\w+\.sandpiper\.localhost:\d+\/vscode\/\?token=[\w.-]+/)
  // ttyd is not installed: the terminal is the runner's own.
  const terminal = await seen(
    /http:\/\/box-\w+\.sandpiper\.localhost:\d+\/terminal\/\?token=[\w.-]+/,
  )
  expect(screen).not.toContain("ttyd")
  const open = async (address: string) => {
    const { host } = new URL(address)
    const answer = await fetch(address.replace(/box-\w+\.sandpiper\.localhost/, "127.0.0.1"), {
      headers: { host },
    })
    return { status: answer.status, text: await answer.text() }
  }
  expect(await open(link)).toEqual({ status: 200, text: "the editor" })
  expect(await open(terminal)).toMatchObject({
    status: 200,
    text: expect.stringContaining('id="screen"'),
  })
  expect((await open(link.replace(/token=.*/, ""))).status).toBe(401)
  const forged = link.replace(/\.([^.])([^.]*)$/, (_all, first, rest) =>
    [".", first === "A" ? "B" : "A", rest].join(""),
  )
  expect((await open(forged)).status).toBe(401)

  child.terminal?.write("run: echo hello $((40 + 2)) > proof.txt; cat proof.txt\r")
  await seen("hello 42")
  expect(await Bun.file(join(sandbox.workDir, "proof.txt")).text()).toBe("hello 42\n")
  child.terminal?.write("\u0004")
  expect(await child.exited).toBe(0)
})

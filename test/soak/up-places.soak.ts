/** `sandpiper up` in a terminal: one place for each directory, one `up` in each place, a new session after an end. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { existsSync, readdirSync, realpathSync } from "node:fs"
import { mkdir, readFile, rename, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { startTerminal, type Terminal } from "../kit/terminal.ts"
import { untilTrue } from "../kit/until-true.ts"

const binary = requireBinary()
// Several starts of OpenCode in one test, also on a busy machine.
setDefaultTimeout(240_000)
let sandbox: Sandbox
let env: Record<string, string>
const open: Terminal[] = []

beforeAll(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = sandbox.environment
  env = { PATH, HOME, OPENCODE_BIN, GATEWAY_PORT: "0" }
  for (const name of ["a", "b"]) await mkdir(join(sandbox.root, name))
})
// A failed test must not leave an `up` behind that the next test meets.
afterEach(async () => {
  for (const terminal of open.splice(0)) await terminal.kill()
})
afterAll(() => sandbox.remove())

const directory = (name: string): string => realpathSync(join(sandbox.root, name))
const base = () => join(sandbox.root, "home/.local/state/sandpiper")
const fileIn = (name: string, file: string) => readFile(join(sandbox.root, name, file), "utf8")

const up = (name: string, ...args: readonly string[]): Terminal => {
  const terminal = startTerminal([binary, "up", ...args], {
    cwd: join(sandbox.root, name),
    env,
    // A line with a path is not wrapped.
    cols: 300,
  })
  open.push(terminal)
  return terminal
}
const ready = async (terminal: Terminal, name: string) => {
  await terminal.seen("Ready. The agent works in")
  expect(terminal.text()).toContain(`works in ${directory(name)}`)
}
const sandpiper = (name: string, ...args: readonly string[]) =>
  runToEnd([binary, ...args], { env, cwd: join(sandbox.root, name) })
const leave = async (terminal: Terminal) => {
  terminal.type("\u0004")
  return terminal.exited
}

test("two ups in two directories and three in the same one: each prompt lands where its terminal says, and none is ended", async () => {
  const a = up("a")
  const b = up("b")
  await Promise.all([ready(a, "a"), ready(b, "b")])
  // A turn of the first one runs while the others start in the same directory.
  a.type(
    "run: touch begun.txt; until [ -e go.txt ]; do sleep 0.2; done; echo not-ended-$((40 + 2))\r",
  )
  await untilTrue(() => existsSync(join(sandbox.root, "a/begun.txt")), "begin of the command")
  const second = up("a")
  await second.seen(`Another \`up\` runs in ${directory("a")} (pid ${a.child.pid}, since 20`)
  await second.seen("Attach to its session? [Y/n]")
  second.type("y\r")
  await second.seen(`Attached. The agent works in ${directory("a")}`)
  const third = up("a", "--new")
  await ready(third, "a")
  await writeFile(join(sandbox.root, "a/go.txt"), "")
  await a.seen(/^ *not-ended-42$/m)

  const write = async (terminal: Terminal, word: string) => {
    terminal.type(`run: echo ${word} >> words.txt; pwd; echo done-${word}\r`)
    await terminal.seen(new RegExp(`^ *done-${word}$`, "m"))
  }
  await Promise.all([write(a, "one"), write(b, "two"), write(third, "three")])
  await write(second, "four")
  const words = (await fileIn("a", "words.txt")).trim().split("\n")
  expect(words.toSorted()).toEqual(["four", "one", "three"])
  expect(await fileIn("b", "words.txt")).toBe("two\n")
  // The second terminal shows the session of the first one, and the first shows what the second has asked.
  await a.seen("done-four")
  expect(third.text()).not.toContain("done-four")

  // The model still ends its answer after the last output of the command is on the screen.
  let list = ""
  await untilTrue(async () => {
    list = (await sandpiper("b", "sessions")).out
    return !/^ {2}local\S* +working/m.test(list)
  }, "list without a working session")
  expect(list).toContain(`${directory("a")}  running (pid ${a.child.pid}, since`)
  expect(list).toContain(`${directory("a")}  running (pid ${third.child.pid}, since`)
  expect(list).toContain(`${directory("b")}  running (pid ${b.child.pid}, since`)
  expect(list).toMatch(/^ {2}local +idle/m)
  expect(list).toMatch(/^ {2}local\.2 +idle/m)

  const refused = await runToEnd([binary, "up"], { env, cwd: directory("b"), input: "hello\n" })
  expect(refused.err).toContain(`another \`up\` runs in ${directory("b")} (pid ${b.child.pid}`)
  expect(refused.err).toContain("attach to it with `sandpiper chat`")
  expect(refused.code).toBe(1)
  const busy = await sandpiper("a", "forget", directory("b"))
  expect(busy).toMatchObject({ code: 1 })
  expect(busy.err).toContain(`pid ${b.child.pid}`)

  expect(await leave(second)).toBe(0)
  expect(a.child.exitCode).toBeNull()
  await mkdir(join(sandbox.root, "a/below"))
  const chat = await sandpiper("a/below", "chat", "good", "day")
  expect(chat).toMatchObject({ code: 0, err: "" })
  expect(chat.out).toContain("> good day")
  const nowhere = await runToEnd([binary, "chat", "hi"], { env, cwd: sandbox.root })
  expect(nowhere.code).toBe(2)
  expect(nowhere.err).toContain(directory("b"))
  expect(await Promise.all([a, b, third].map(leave))).toEqual([0, 0, 0])
})

test("a lock ends with its owner: after SIGKILL the next up starts, and a link to a directory is the same place", async () => {
  const killed = up("b")
  await ready(killed, "b")
  await killed.kill()
  await symlink(join(sandbox.root, "b"), join(sandbox.root, "link"))
  const next = up("link")
  await ready(next, "b")
  expect(await leave(next)).toBe(0)
  expect(readdirSync(join(base(), "places")).filter((name) => name.startsWith("link"))).toEqual([])
})

test("an ended session is not continued: the next up says so, starts a new one and answers", async () => {
  const first = up("b")
  await ready(first, "b")
  const places = readdirSync(join(base(), "places")).filter((name) => name.startsWith("b-"))
  const place = join(base(), "places", places[0] ?? "")
  const { url, token } = JSON.parse(await readFile(join(place, "hub/address.json"), "utf8")) as {
    url: string
    token: string
  }
  await fetch(`${url}/sessions/local`, {
    method: "DELETE",
    headers: { Authorization: `Bearer ${token}` },
  })
  await first.seen("The session has ended. The next `sandpiper up` starts a new one.")
  expect(await first.exited).toBe(0)
  const next = up("b")
  await next.seen("Session local has ended. A new session starts: local-2")
  await ready(next, "b")
  next.type("good evening\r")
  await next.seen("> good evening")
  const again = await sandpiper("b", "chat", "and", "chat")
  expect(again).toMatchObject({ code: 0, err: "" })
  expect(again.out).toContain("> and chat")
  expect(await leave(next)).toBe(0)
})

test("forget deletes what is stored for a directory and leaves its files", async () => {
  const { out, code } = await sandpiper("a", "forget", join(sandbox.root, "link"))
  expect(out).toContain(directory("b"))
  expect(code).toBe(0)
  expect(readdirSync(join(base(), "places")).filter((name) => name.startsWith("b-"))).toEqual([])
  expect(await fileIn("b", "words.txt")).toBe("two\n")
  expect((await sandpiper("a", "sessions")).out).not.toContain(directory("b"))
  expect((await sandpiper("a", "forget", directory("b"))).code).toBe(2)
})

test("the state of an earlier version is taken over by its directory and by no other", async () => {
  const [name = ""] = readdirSync(join(base(), "places")).filter((one) => /^a-[0-9a-f]+$/.test(one))
  // An earlier version kept this state directly in the base directory.
  for (const entry of readdirSync(join(base(), "places", name))) {
    if (!["place.json", "lock.db"].includes(entry))
      await rename(join(base(), "places", name, entry), join(base(), entry))
  }
  await rename(join(base(), "places", name), join(sandbox.root, "removed"))
  const other = await runToEnd([binary, "up"], { env, cwd: directory("b"), input: "run: pwd\n" })
  expect(other.out).toContain(`    ${directory("b")}\n`)
  expect(existsSync(join(base(), "session/state.db"))).toBeTrue()
  const same = await runToEnd([binary, "up"], { env, cwd: directory("a"), input: "run: pwd\n" })
  expect(same.out).toContain(`    ${directory("a")}\n`)
  expect(existsSync(join(base(), "session/state.db"))).toBeFalse()
  const snapshot = await Bun.file(join(base(), "places", name, "hub/sessions/local.db")).bytes()
  expect(Buffer.from(snapshot).includes("done-one")).toBeTrue()
})

test("a state directory that the user has chosen is refused for another working directory", async () => {
  const chosen = { ...env, SANDPIPER_STATE_DIR: join(sandbox.root, "chosen") }
  const first = await runToEnd([binary, "up"], { env: chosen, cwd: directory("a"), input: "hi\n" })
  expect(first).toMatchObject({ code: 0, err: "" })
  const other = await runToEnd([binary, "up"], { env: chosen, cwd: directory("b"), input: "hi\n" })
  expect(other.code).toBe(2)
  expect(other.err).toContain(`holds the session of ${directory("a")}, not of ${directory("b")}`)
})

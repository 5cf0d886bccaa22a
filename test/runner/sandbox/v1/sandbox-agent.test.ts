/** The published SDK of sandbox-agent as a client of our gateway: files, programs and background processes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { type ProcessLogEntry, SandboxAgent, SandboxAgentError } from "sandbox-agent"
import { makeControlToken } from "../../gateway/kit.ts"
import { untilEqual, untilTrue } from "../../../kit/until-true.ts"
import { otherUser, startV1Stage, type V1Stage } from "./kit.ts"

let stage: V1Stage
let sdk: SandboxAgent

beforeAll(async () => {
  stage = await startV1Stage({ LANG: "C.UTF-8" })
  sdk = await SandboxAgent.connect({ baseUrl: stage.gateway.url, token: makeControlToken() })
})
afterAll(async () => {
  await sdk.dispose()
  await stage.stop()
})

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const decoded = (entries: readonly ProcessLogEntry[]): string =>
  entries.map(({ data }) => Buffer.from(data, "base64").toString()).join("")
const statusOf = async (work: Promise<unknown>): Promise<number> =>
  work.then(
    () => 200,
    (error: unknown) => (error instanceof SandboxAgentError ? error.status : -1),
  )

/** A duration for `sleep` that no other test process uses. */
const nap = (digit: number): string => `${digit}0000.${process.pid}`
/** The processes on the machine that sleep for this duration. */
const sleeping = (digit: number): number => {
  const { stdout } = Bun.spawnSync(["ps", "-eo", "stat,args"])
  const lines = stdout.toString().split("\n")
  return lines.filter((line) => line.endsWith(`sleep ${nap(digit)}`) && !line.startsWith("Z"))
    .length
}

describe("files through the SDK of sandbox-agent", () => {
  test("the SDK finds the server healthy", async () => {
    expect(await sdk.getHealth()).toEqual({ status: "ok" })
  })

  test("a written file is read back, and belongs to the agent's user", async () => {
    const path = join(stage.root, "notes/a.txt")
    const written = await sdk.writeFsFile({ path: "notes/a.txt" }, "hello")
    expect(written).toEqual({ path, bytesWritten: 5 })
    expect(textOf(await sdk.readFsFile({ path }))).toBe("hello")
    expect((await stat(path)).uid).toBe(otherUser?.uid ?? process.getuid?.() ?? -1)
  })

  test("entries and stat have the published fields", async () => {
    await sdk.writeFsFile({ path: "list/one" }, "1")
    await sdk.mkdirFs({ path: "list/deep/er" })
    const entries = await sdk.listFsEntries({ path: "list" })
    expect(entries).toMatchObject([
      { name: "deep", path: join(stage.root, "list/deep"), entryType: "directory" },
      { name: "one", path: join(stage.root, "list/one"), entryType: "file", size: 1 },
    ])
    const { modified, ...found } = await sdk.statFs({ path: "list/one" })
    expect(found).toEqual({ path: join(stage.root, "list/one"), entryType: "file", size: 1 })
    expect(Math.abs(Date.parse(modified ?? "") - Date.now())).toBeLessThan(60_000)
  })

  test("a directory is made twice without an error", async () => {
    const path = join(stage.root, "made/twice")
    expect(await sdk.mkdirFs({ path: "made/twice" })).toEqual({ path })
    expect(await sdk.mkdirFs({ path })).toEqual({ path })
  })

  test("a move replaces a file only with overwrite", async () => {
    await sdk.writeFsFile({ path: "from" }, "new")
    await sdk.writeFsFile({ path: "to" }, "old")
    expect(await statusOf(sdk.moveFs({ from: "from", to: "to" }))).toBe(409)
    expect(textOf(await sdk.readFsFile({ path: "to" }))).toBe("old")
    expect(await sdk.moveFs({ from: "from", to: "to", overwrite: true })).toEqual({
      from: join(stage.root, "from"),
      to: join(stage.root, "to"),
    })
    expect(textOf(await sdk.readFsFile({ path: "to" }))).toBe("new")
    expect(await statusOf(sdk.statFs({ path: "from" }))).toBe(404)
  })

  test("a directory with files is deleted only with recursive", async () => {
    await sdk.writeFsFile({ path: "tree/a/b/c" }, "x")
    expect(await statusOf(sdk.deleteFsEntry({ path: "tree" }))).toBe(409)
    expect(await sdk.deleteFsEntry({ path: "tree", recursive: true })).toEqual({
      path: join(stage.root, "tree"),
    })
    expect(await statusOf(sdk.deleteFsEntry({ path: "tree" }))).toBe(404)
  })

  test("a batch of files is unpacked from a tar archive", async () => {
    const long = `${"d".repeat(120)}/${"f".repeat(140)}`
    const archive = new Bun.Archive({ "sub/one": "1", two: "22", [long]: "long" })
    const result = await sdk.uploadFsBatch(await archive.bytes(), { path: "batch" })
    expect(result.truncated).toBe(false)
    expect(result.paths).toContain(join(stage.root, "batch/sub/one"))
    expect(await readFile(join(stage.root, "batch/two"), "utf8")).toBe("22")
    expect(await readFile(join(stage.root, "batch", long), "utf8")).toBe("long")
  })
})

describe("programs through the SDK of sandbox-agent", () => {
  test("a program runs to its end and returns code and output", async () => {
    const result = await sdk.runProcess({
      command: "sh",
      args: ["-c", "echo out $WORD; echo err >&2; exit 3"],
      env: { WORD: "word" },
    })
    expect(result).toMatchObject({
      exitCode: 3,
      timedOut: false,
      stdout: "out word\n",
      stderr: "err\n",
      stdoutTruncated: false,
    })
  })

  test("a program runs as the agent's user, in the workspace or the named directory", async () => {
    await sdk.mkdirFs({ path: "inside" })
    const here = await sdk.runProcess({ command: "sh", args: ["-c", "id -u; id -G; pwd"] })
    const uid = otherUser?.uid ?? process.getuid?.()
    expect(here.stdout.split("\n")[0]).toBe(String(uid))
    if (otherUser) expect(here.stdout.split("\n")[1]).toBe(String(otherUser.gid))
    expect(here.stdout.trim().split("\n")[2]).toBe(stage.root)
    const there = await sdk.runProcess({ command: "pwd", cwd: "inside" })
    expect(there.stdout.trim()).toBe(join(stage.root, "inside"))
    expect(await statusOf(sdk.runProcess({ command: "pwd", cwd: "/etc" }))).toBe(400)
  })

  test("a timeout ends the program with its children", async () => {
    const result = await sdk.runProcess({
      command: "sh",
      args: ["-c", `sleep ${nap(9)} & sleep ${nap(9)}`],
      timeoutMs: 200,
    })
    expect(result).toMatchObject({ exitCode: null, timedOut: true })
    expect(sleeping(9)).toBe(0)
  })

  test("output above the limit is cut and marked", async () => {
    const result = await sdk.runProcess({ command: "seq", args: ["100000"], maxOutputBytes: 10 })
    expect(result).toMatchObject({ exitCode: 0, stdout: "1\n2\n3\n4\n5\n", stdoutTruncated: true })
  })

  test("a program that does not exist is an error that names it", async () => {
    const failed = sdk.runProcess({ command: "no-such-program" })
    const error = await failed.catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ status: 400 })
    expect(error instanceof SandboxAgentError && error.problem?.detail).toStartWith(
      "no-such-program cannot be started",
    )
  })
})

describe("background processes through the SDK of sandbox-agent", () => {
  test("a process is started, fed, followed, stopped and deleted", async () => {
    const { id, pid, status } = await sdk.createProcess({
      command: "sh",
      args: ["-c", 'echo one; read line; echo "got $line"; sleep 60'],
      interactive: true,
    })
    expect(status).toBe("running")
    expect(pid).toBeGreaterThan(1)
    const seen: ProcessLogEntry[] = []
    const following = await sdk.followProcessLogs(id, (entry) => void seen.push(entry))
    // Two entries of the log need two reads of the output.
    await untilTrue(() => decoded(seen).includes("one"), "the first line")
    const input = Buffer.from("hey\n").toString("base64")
    expect(await sdk.sendProcessInput(id, { data: input, encoding: "base64" })).toEqual({
      bytesWritten: 4,
    })
    await untilTrue(() => decoded(seen).includes("got hey"), "the answer to the input")
    expect(decoded(seen)).toBe("one\ngot hey\n")
    const after = await sdk.getProcessLogs(id, { since: seen[0]?.sequence ?? 0 })
    expect(decoded(after.entries)).toBe("got hey\n")
    expect((await sdk.listProcesses()).processes.map((process) => process.id)).toContain(id)
    expect(await statusOf(sdk.deleteProcess(id))).toBe(409)
    expect(await sdk.stopProcess(id)).toMatchObject({ id, status: "exited", exitCode: null })
    await following.closed
    await sdk.deleteProcess(id)
    expect(await statusOf(sdk.getProcess(id))).toBe(404)
  })

  test("killing a process also ends a descendant that has left its process group", async () => {
    const { id } = await sdk.createProcess({
      command: "sh",
      args: ["-c", `setsid sleep ${nap(8)} & exec sleep ${nap(8)}`],
    })
    await untilEqual(() => sleeping(8), 2, "two processes")
    await sdk.killProcess(id)
    expect(sleeping(8)).toBe(0)
  })

  test("a process with a terminal sees one and can be resized", async () => {
    const { id } = await sdk.createProcess({
      command: "sh",
      args: ["-c", "tty; read x; stty size; sleep 60"],
      tty: true,
    })
    await sdk.resizeProcessTerminal(id, { cols: 101, rows: 33 })
    await sdk.sendProcessInput(id, { data: Buffer.from("\n").toString("base64") })
    const log = async () => decoded((await sdk.getProcessLogs(id)).entries)
    await untilTrue(async () => (await log()).includes("33 101"), "the size of the terminal")
    expect(await log()).toContain("/dev/pts/")
    await sdk.killProcess(id)
  })

  test("a killed server is started again, and its programs are ended", async () => {
    const seconds = nap(7)
    await sdk.createProcess({ command: "sleep", args: [seconds] })
    await untilTrue(() => stage.storedProcesses().includes(seconds), "the stored process")
    const before = stage.supervisor.pid() ?? 0
    process.kill(before, "SIGKILL")
    await untilTrue(() => stage.supervisor.pid() !== before, "the next server")
    const { processes } = await sdk.listProcesses()
    expect(processes.map(({ args, status, exitCode }) => ({ args, status, exitCode }))).toEqual([
      { args: [seconds], status: "exited", exitCode: null },
    ])
    expect(stage.supervisor.pid()).not.toBe(before)
    expect(sleeping(7)).toBe(0)
  })
})

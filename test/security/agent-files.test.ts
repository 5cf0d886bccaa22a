/** Files in the agent's hands: the runner, as root, neither follows its links nor waits for its FIFOs. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { spawn } from "node:child_process"
import { link, lstat, mkdir, mkdtemp, open, readdir, readFile, rm, stat } from "node:fs/promises"
import { chmod, chown, symlink, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { writeGitConfig } from "../../src/runner/host/clone-repository.ts"
import { scrubFiles } from "../../src/runner/host/detect-restore.ts"
import { createSaveFile } from "../../src/runner/prompt/save-file.ts"
import { createSecrets } from "../../src/runner/sandbox/secrets.ts"
import { silentLog } from "../kit/log.ts"
import { untilEqual } from "../kit/until-true.ts"

const isRoot = process.getuid?.() === 0
/** A user of this machine that owns nothing: `nobody`. */
const AGENT = isRoot
  ? { uid: 65_534, gid: 65_534 }
  : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

let root: string
let work: string

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "agent-files-"))
  work = join(root, "workspace")
  await mkdir(work)
  await chmod(root, 0o755)
  await chown(work, AGENT.uid, AGENT.gid)
})

afterEach(() => rm(root, { recursive: true, force: true }))

const inject = (template: string, output = "out") =>
  createSecrets({
    provider: {
      references: /secret:\/\/\w+/g,
      isReference: () => true,
      list: async () => [],
      resolve: async () => new Map(),
    },
    workDir: work,
    runCommand: async () => ({ exitCode: 0, stdout: "", stderr: "" }),
    owner: isRoot ? AGENT : undefined,
  }).inject(template, output)

const outcomeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "it was done",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

/** A process that exchanges two names as fast as it can, as a hostile agent does. */
const swapping = async (one: string, other: string) => {
  const script = `
    import ctypes, os
    libc = ctypes.CDLL(None)
    one, other = (os.environ[name].encode() for name in ("ONE", "OTHER"))
    print("swapping", flush=True)
    while True: libc.renameat2(-100, one, -100, other, 2)`
  const child = spawn("python3", ["-c", script.replaceAll("\n    ", "\n")], {
    env: { ...process.env, ONE: one, OTHER: other },
    stdio: ["ignore", "pipe", "inherit"],
  })
  await new Promise((resolve) => child.stdout.once("data", resolve))
  return {
    stop: async () => {
      child.kill("SIGKILL")
      await new Promise((resolve) => child.once("exit", resolve))
    },
  }
}

const SECRET = "a secret of root"

test("a template that is swapped for a link while it is read never shows a file outside the workspace", async () => {
  const hidden = join(root, "shadow")
  await writeFile(hidden, SECRET, { mode: 0o600 })
  await writeFile(join(work, "template"), "harmless")
  await symlink(hidden, join(work, "trap"))
  for (const name of ["template", "trap"]) await chmodIfFile(join(work, name))
  const swaps = await swapping(join(work, "template"), join(work, "trap"))
  const seen = new Set<string>()
  try {
    for (let attempt = 0; attempt < 10_000 || !seen.has("harmless"); attempt += 1) {
      await inject("template").catch(() => {})
      seen.add(await readFile(join(work, "out"), "utf8").catch(() => ""))
    }
  } finally {
    await swaps.stop()
  }
  expect([...seen]).toContain("harmless")
  expect([...seen]).not.toContain(SECRET)
})

const chmodIfFile = async (path: string) => {
  if ((await lstat(path)).isFile()) await chmod(path, 0o644)
}

test("a template that is a hard link to a file of another user is refused", async () => {
  if (!isRoot) return
  await writeFile(join(root, "shadow"), SECRET, { mode: 0o600 })
  await link(join(root, "shadow"), join(work, "template"))
  expect(await outcomeOf(inject("template"))).toBe(
    "templatePath: template is not a readable file: the agent's user may not read it",
  )
})

test("a template that is a FIFO is refused at once and blocks no file thread", async () => {
  Bun.spawnSync(["mkfifo", join(work, "fifo")])
  const outcomes = await Promise.all(Array.from({ length: 16 }, () => outcomeOf(inject("fifo"))))
  expect(new Set(outcomes)).toEqual(
    new Set(["templatePath: fifo is not a readable file: it is not a regular file"]),
  )
  // Blocked file threads would block this too.
  expect((await stat(work)).isDirectory()).toBe(true)
})

test("a sparse template of three gigabytes is refused without reading it", async () => {
  await writeFile(join(work, "huge"), "")
  await truncate(join(work, "huge"), 3 * 1024 ** 3)
  const before = process.memoryUsage.rss()
  expect(await outcomeOf(inject("huge"))).toContain("it is larger than 1048576 bytes")
  expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 1024 ** 2)
})

test("a secret file is never written through a folder that is swapped for a link", async () => {
  const outside = join(root, "outside")
  await mkdir(outside)
  await mkdir(join(work, "folder"))
  await symlink(outside, join(work, "trap"))
  await writeFile(join(work, "template"), "harmless", { mode: 0o644 })
  const swaps = await swapping(join(work, "folder"), join(work, "trap"))
  let done = 0
  try {
    for (let attempt = 0; attempt < 3000 || done === 0; attempt += 1) {
      if ((await outcomeOf(inject("template", "folder/out"))) === "it was done") done += 1
    }
  } finally {
    await swaps.stop()
  }
  expect(done).toBeGreaterThan(0)
  expect(await readdir(outside)).toEqual([])
})

test("an attachment is never saved through a folder that is swapped for a link", async () => {
  const outside = join(root, "outside")
  await mkdir(join(outside, "p"), { recursive: true })
  await mkdir(join(work, ".sandpiper", "attachments", "p"), { recursive: true })
  await symlink(outside, join(work, "trap"))
  const swaps = await swapping(join(work, ".sandpiper", "attachments"), join(work, "trap"))
  const save = createSaveFile(work)
  let saved = 0
  try {
    for (let index = 0; index < 1000 || saved === 0; index += 1) {
      const file = { name: `${index}.bin`, bytes: new Uint8Array([1]) }
      if ((await outcomeOf(save("p", file))) === "it was done") saved += 1
    }
  } finally {
    await swaps.stop()
  }
  expect(saved).toBeGreaterThan(0)
  expect(await readdir(join(outside, "p"))).toEqual([])
})

test("a FIFO in place of auth.json does not block the removal of secrets before a snapshot", async () => {
  const fifo = join(root, "auth.json")
  const config = join(root, "opencode.json")
  Bun.spawnSync(["mkfifo", fifo])
  await writeFile(config, SECRET)
  let scrubbed: readonly string[] | undefined
  const scrub = async () => {
    scrubbed = (await scrubFiles([fifo, config])).files
  }
  const scrubbing = scrub()
  try {
    await untilEqual(() => scrubbed, [config], "removal of the secrets")
    expect(scrubbed).toEqual([config])
    expect(await readdir(root)).not.toContain("opencode.json")
  } finally {
    // Releases a reader that waits for the FIFO, so that a failure does not block the other tests.
    await (await open(fifo, "r+")).close()
    await scrubbing
  }
})

test("a sparse auth.json of three gigabytes is removed before a snapshot without reading it", async () => {
  const path = join(root, "auth.json")
  await writeFile(path, SECRET)
  await truncate(path, 3 * 1024 ** 3)
  const before = process.memoryUsage.rss()
  const scrubbed = await scrubFiles([path])
  expect(scrubbed.files).toEqual([path])
  expect(await readdir(root)).not.toContain("auth.json")
  expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 1024 ** 2)
})

test("the agent's .gitconfig that is a link is not followed by root", async () => {
  if (!isRoot) return
  const [home, victim, state] = [join(root, "home"), join(root, "victim"), join(root, "state")]
  await mkdir(home)
  await mkdir(state)
  await chown(home, AGENT.uid, AGENT.gid)
  await writeFile(victim, "[user]\n\tname = root\n", { mode: 0o644 })
  await symlink(victim, join(home, ".gitconfig"))
  const homes = [{ path: home, user: AGENT }]
  await outcomeOf(
    writeGitConfig(state, { origins: [], helper: "helper" }, homes, {
      environment: { PATH: process.env["PATH"] ?? "" },
      log: silentLog,
    }),
  )
  expect(await readFile(victim, "utf8")).toBe("[user]\n\tname = root\n")
})

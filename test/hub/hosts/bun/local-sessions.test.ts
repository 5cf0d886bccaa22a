/** Sessions that a person starts on the hub's machine: with real git, and a program in the place of the runner. */
import { afterEach, expect, test } from "bun:test"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { mkdtemp, readdir, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startTestLocalHub, type TestLocalHub } from "../../kit/local-hub.ts"
import { CLIENT_TOKEN } from "../../kit/hub.ts"
import { untilTrue } from "../../../kit/until-true.ts"

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

/** Writes down where it works, and lives until its input ends, as a runner does. */
const RUNNER = `printf '%s\\n%s\\n' "$WORK_DIR" "$SANDPIPER_MODEL" > "$PWD/started"; cat > /dev/null`

const git = (cwd: string, ...args: readonly string[]): string => {
  const identity = ["-c", "user.name=Heron", "-c", "user.email=heron@example.com"]
  const { stdout, stderr, exitCode } = Bun.spawnSync(["git", ...identity, ...args], { cwd })
  if (exitCode !== 0) throw new Error(stderr.toString())
  return stdout.toString().trim()
}

const start = async (isRepository: boolean, maxChildren = 5) => {
  const workDir = await realpath(await mkdtemp(join(tmpdir(), "local-sessions-")))
  stops.push(() => rm(workDir, { recursive: true, force: true }))
  if (isRepository) {
    git(workDir, "init", "--quiet", "-b", "main")
    writeFileSync(join(workDir, "shore.txt"), "sand\n")
    git(workDir, "add", ".")
    git(workDir, "commit", "--quiet", "-m", "first")
  }
  const local = await startTestLocalHub({
    workDir,
    firstSession: () => "s1",
    self: ["sh", "-c", RUNNER],
    maxChildren,
  })
  stops.push(() => local.stop())
  return { local, workDir }
}

const post = async ({ hub }: TestLocalHub, body: object) => {
  const response = await fetch(`${hub.url}/sessions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as {
    readonly session?: string
    readonly error?: { readonly message: string }
  }
  return { status: response.status, session: answer.session ?? "", problem: answer.error?.message }
}
const folders = async ({ folder }: TestLocalHub) =>
  readdir(join(folder, "state/children")).catch(() => [])
const fileOf = ({ folder }: TestLocalHub, session: string, name: string) =>
  join(folder, "state/children", session, name)
const started = async (local: TestLocalHub, session: string) => {
  const file = fileOf(local, session, "started")
  await untilTrue(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"), "the runner")
  return readFileSync(file, "utf8").split("\n")
}
const status = (local: TestLocalHub, session: string) => local.hub.find(session)?.status().status

test("a session in the same directory works there, with its model and the config of the first session", async () => {
  const { local, workDir } = await start(false)
  local.hub.find("s1")?.configure({ instructions: ["Wade slowly."] })
  const made = await post(local, { workspace: "same", model: "a/one" })
  expect(made.status).toBe(201)
  expect(await started(local, made.session)).toEqual([workDir, "a/one", ""])
  expect(local.hub.find(made.session)?.config()).toMatchObject({ instructions: ["Wade slowly."] })
})

test("a session in a worktree works on a branch of its own; a clean worktree goes with its end, another one stays", async () => {
  const { local, workDir } = await start(true)
  // The agent can write hooks, and the hub must not run them.
  const sign = join(workDir, "hook-has-run")
  const hook = join(workDir, ".git/hooks/post-checkout")
  writeFileSync(hook, `#!/bin/sh\ntouch ${sign}\n`, { mode: 0o755 })
  const made = await post(local, { workspace: "worktree" })
  const worktree = fileOf(local, made.session, "workspace")
  expect((await started(local, made.session))[0]).toBe(worktree)
  expect(readFileSync(join(worktree, "shore.txt"), "utf8")).toBe("sand\n")
  expect(git(worktree, "branch", "--show-current")).toBe(`sandpiper/${made.session.slice(0, 8)}`)
  expect(git(workDir, "branch", "--show-current")).toBe("main")
  await local.hub.end(made.session, "enough")
  expect(status(local, made.session)).toBe("ended")
  expect(existsSync(worktree)).toBe(false)
  expect(git(workDir, "worktree", "list").split("\n")).toHaveLength(1)

  const other = await post(local, { workspace: "worktree" })
  const file = join(fileOf(local, other.session, "workspace"), "new.txt")
  writeFileSync(file, "not committed\n")
  await local.hub.end(other.session, "enough")
  expect(existsSync(file)).toBe(true)
  expect(existsSync(sign)).toBe(false)
})

test("outside a git repository, and before its first commit, a worktree is refused and nothing changes", async () => {
  const { local, workDir } = await start(false)
  const outside = await post(local, { workspace: "worktree" })
  expect(outside.status).toBe(409)
  expect(outside.problem).toContain(`${workDir} is not a git repository`)
  git(workDir, "init", "--quiet", "-b", "main")
  const empty = await post(local, { workspace: "worktree" })
  expect(empty.status).toBe(409)
  expect(empty.problem).toContain("has no commit yet")
  expect(await folders(local)).toEqual([])
  const { sessions } = await local.hub.directory.listSessions({ owners: "all" }, "operator")
  expect(sessions.map(({ id }) => id)).toEqual(["s1"])
})

test("a session beyond the limit is refused until another one has ended", async () => {
  const { local } = await start(true, 1)
  const made = await post(local, { workspace: "worktree" })
  const more = await post(local, { workspace: "worktree" })
  expect(more.status).toBe(429)
  expect(await folders(local)).toEqual([made.session])
  expect((await post(local, { workspace: "same", runnerToken: "x".repeat(20) })).status).toBe(400)
  await local.hub.end(made.session, "enough")
  expect((await post(local, { workspace: "same" })).status).toBe(201)
})

/**
 * Git credentials that the session agent sends over the link, with a real git host that asks for a password. Each test has a git host,
 * a session agent and a runner of its own.
 */
import { Database } from "bun:sqlite"
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { createGitAccount } from "../../../src/runner/host/git-account.ts"
import type { GitCredentials } from "../../../src/wire/frames/index.ts"
import { type GitServer, startGitServer } from "../../kit/git-server.ts"
import { silentLog } from "../../kit/log.ts"
import { runToEnd } from "../../kit/run-to-end.ts"
import {
  createSandbox,
  requireBinary,
  type Sandbox,
  startRunner,
  type TestRunner,
} from "../../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../../kit/session-agent.ts"

const TOKEN = "ghp_token-that-came-over-the-link"
const OTHER = "ghp_another-token-over-the-link"

let server: GitServer
let agent: TestSessionAgent
let sandbox: Sandbox
let runner: TestRunner

const start = () =>
  startRunner(
    agent,
    {
      OPENCODE_BIN: "/bin/false",
      REPO_URL: server.url("project"),
      GIT_USER_NAME: "Of the settings",
    },
    { in: sandbox, self: [requireBinary()] },
  )

/** Frames are handled in order: the reply to the second one shows that the first has its effect. */
const tell = async (credentials: GitCredentials) => {
  const after = agent.frames.length
  agent.say({ type: "git-credentials", ...credentials })
  agent.say({ type: "abort", channelType: "test", channelId: "barrier" })
  await agent.frame("aborted", () => true, after)
}
const apiToken = (): string => {
  const db = new Database(join(sandbox.stateDir, "session/state.db"), { readonly: true })
  const fact = db
    .query<{ value: string }, []>("SELECT value FROM facts WHERE name = 'agent.api-token'")
    .get()
  db.close()
  return fact?.value.split(" ")[1] ?? ""
}
/** As the agent's shell runs it. */
const git = (...args: readonly string[]) => {
  const { PATH = "", HOME = "" } = sandbox.environment
  return runToEnd(["git", ...args], {
    cwd: sandbox.workDir,
    env: { PATH, HOME, GIT_TERMINAL_PROMPT: "0", SANDPIPER_API_TOKEN: apiToken() },
  })
}
const isCloned = () =>
  agent.until(
    () => runner.log.some((line) => line.includes("git.cloned")),
    "the clone with the token of the frame",
  )
const list = () => git("ls-remote", server.url("project"))

describe("a runner whose session agent sends credentials", () => {
  beforeEach(async () => {
    server = await startGitServer(TOKEN)
    await server.commit("project", "README.md", "first\n")
    agent = startTestSessionAgent()
    sandbox = await createSandbox(agent)
    runner = await start()
    // The runner's own attempt to clone has failed: it has no password yet.
    await agent.until(
      () => runner.log.some((line) => line.includes("git.not-prepared")),
      "the failed clone",
    )
  })
  afterEach(async () => {
    await runner.stop()
    await agent.stop()
    await server.stop()
  })

  test("git of the agent clones, commits and pushes with the token and the author of the frame", async () => {
    expect(agent.hellos[0]?.accepts).toEqual(["git-credentials"])
    expect((await list()).code).not.toBe(0)
    expect(server.passwords).toEqual([])
    await tell({ token: TOKEN, userName: "Carol", userEmail: "carol@example.com" })
    const clone = join(sandbox.workDir, "of-the-agent")
    expect(await git("clone", "--quiet", server.url("project"), clone)).toMatchObject({
      code: 0,
      err: "",
    })
    await writeFile(join(clone, "new.txt"), "new\n")
    await git("-C", clone, "add", "--all")
    expect((await git("-C", clone, "commit", "--quiet", "--message", "more")).code).toBe(0)
    expect((await git("-C", clone, "push", "--quiet")).code).toBe(0)
    expect((await git("-C", clone, "log", "-1", "--format=%an <%ae>")).out.trim()).toBe(
      "Carol <carol@example.com>",
    )
    expect(new Set(server.passwords)).toEqual(new Set([TOKEN]))
  })

  test("a repository that could not be cloned without a token is cloned when the token comes", async () => {
    await tell({ token: TOKEN })
    await isCloned()
    expect(await readFile(join(sandbox.workDir, "project", "README.md"), "utf8")).toBe("first\n")
    const clones = () => runner.log.filter((line) => /git\.(?:cloned|kept)/.test(line)).length
    const before = clones()
    await tell({ token: TOKEN })
    await tell({ token: OTHER })
    // Each is a git that asks the runner for its password, as a clone after these frames would.
    for (let time = 0; time < 3; time += 1) await list()
    // Nothing is missing any more.
    expect(clones()).toBe(before)
  })

  test("a later frame replaces the token, and an empty one removes it and restores the author of the settings", async () => {
    await tell({ token: OTHER })
    expect((await list()).code).not.toBe(0)
    expect(server.passwords.at(-1)).toBe(OTHER)
    expect((await git("config", "user.name")).out.trim()).toBe("Of the settings")
    await tell({})
    const before = server.passwords.length
    expect((await list()).code).not.toBe(0)
    expect(server.passwords).toHaveLength(before)
  })

  test("a restarted runner has no token until the session agent sends it again, and no file or log line has it", async () => {
    await tell({ token: TOKEN })
    await isCloned()
    const found = Bun.spawnSync(["grep", "-rlF", "-e", TOKEN, "-e", OTHER, sandbox.root])
    expect(found.stdout.toString()).toBe("")
    expect(runner.log.join("\n")).not.toContain(TOKEN)
    await runner.daemon.stop({ code: 0, why: "a restart" })
    const hellos = agent.hellos.length
    runner = await start()
    await agent.until(() => agent.hellos.length > hellos, "the next runner")
    // The clone exists, so this runner does not clone; its configuration of git is written before it looks for it.
    await agent.until(() => runner.log.some((line) => line.includes("git.kept")), "the repository")
    expect((await list()).code).not.toBe(0)
    await tell({ token: TOKEN })
    expect((await list()).code).toBe(0)
  })

  test("the helper of another sandbox asks the runner that has started git, so that sandboxes can share a .gitconfig", async () => {
    await tell({ token: TOKEN })
    const { PATH = "", HOME = "" } = sandbox.environment
    const helper = [requireBinary(), "git-credential", "--state-dir", join(sandbox.root, "another")]
    const ask = (more: Readonly<Record<string, string>>) =>
      runToEnd([...helper, "get"], {
        env: { PATH, HOME, SANDPIPER_API_TOKEN: apiToken(), ...more },
        input: `protocol=http\nhost=${new URL(server.origin).host}\n\n`,
      })
    expect((await ask({})).out).toBe("")
    expect((await ask({ SANDPIPER_RUNNER_DIR: sandbox.stateDir })).out).toContain(TOKEN)
  })
})

test("the token of the frame comes before the one of the settings, and a repository's own before both", () => {
  const account = createGitAccount({
    config: { gitUserName: undefined, gitUserEmail: undefined },
    current: () => ({
      repositories: [
        { url: "https://git.example/a/b" },
        { url: "https://own.example/a/b", token: "of-the-repository" },
      ],
      githubToken: "of-the-settings",
    }),
    log: silentLog,
  })
  const passwords = () => account.credentials().map(({ origin, password }) => [origin, password])
  const own = ["https://own.example", "of-the-repository"]
  expect(passwords()).toEqual([own, ["https://git.example", "of-the-settings"]])
  account.set({ token: "of-the-frame" })
  expect(passwords()).toEqual([own, ["https://git.example", "of-the-frame"]])
  account.set({})
  expect(passwords()).toEqual([own, ["https://git.example", "of-the-settings"]])
})

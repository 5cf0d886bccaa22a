/** A sandbox with a private repository and persona files: what the agent sees, and what a snapshot removes. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type Booted, boot } from "../kit/boot.ts"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const TOKEN = "ghp_the-token-of-the-boot"
let model: ScriptedModel
let agent: TestSessionAgent
let server: GitServer
let sandbox: Sandbox
let booted: Booted

beforeAll(async () => {
  model = await startScriptedModel()
  server = await startGitServer(TOKEN)
  await server.commit("project", "README.md", "first\n")
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  sandbox = await createSandbox(agent)
  // As in a copied file system: a browser's lock of another machine with a pid that is in use here.
  const profile = join(sandbox.environment["HOME"] ?? "", ".config/chromium")
  await mkdir(profile, { recursive: true })
  await symlink(`machine-of-before-${process.pid}`, join(profile, "SingletonLock"))
  booted = boot(sandbox, {
    env: {
      REPO_URL: server.url("project"),
      GITHUB_TOKEN: TOKEN,
      GIT_USER_NAME: "Sandpiper",
      GIT_USER_EMAIL: "sandpiper@example.com",
      PERSONA_FILES_JSON: JSON.stringify([
        { filename: "../../x", content: "Always speak of the sea.", sortOrder: 3 },
      ]),
    },
  })
  await idle(0)
})

afterAll(async () => {
  booted.child.kill("SIGKILL")
  await booted.child.exited
  await agent.stop()
  await server.stop()
  await model.stop()
  await sandbox.remove()
})

const idle = (from: number) =>
  agent.until(
    () =>
      agent.frames.slice(from).some((one) => one.type === "agentStatus" && one.status === "idle"),
    "agent that is ready",
  )

/** The output of a command that the agent runs. */
const byTheAgent = async (id: string, command: string): Promise<string> => {
  const from = agent.frames.length
  model.on(id, [tool("bash", { command, description: "asks" }), text("done")])
  agent.say({ type: "prompt", messageId: id, content: `@@${id}@@` })
  const { result } = await agent.frame(
    "message.part.tool-update",
    ({ status }) => status === "completed",
    from,
  )
  await agent.frame("complete", ({ messageId }) => messageId === id, from)
  return String(result)
}

test("the agent works in the clone and pushes with the configured author", async () => {
  const said = await byTheAgent(
    "work",
    "pwd; echo more > more.txt; git add .; git commit -qm more; git push -q && echo PUSHED; git log -1 --format='%an <%ae>'",
  )
  expect(said).toContain(join(sandbox.workDir, "project"))
  expect(said).toContain("PUSHED")
  expect(said).toContain("Sandpiper <sandpiper@example.com>")
})

test("the git token is not in the agent's environment, on a command line or in a file", async () => {
  const said = await byTheAgent(
    "look",
    "env; cat /proc/*/environ | tr '\\0' '\\n'; ps -eo args=; git config --list",
  )
  expect(said).toContain("SANDPIPER_API_TOKEN=")
  expect(said).toContain("sandpiper run")
  expect(said).not.toContain(TOKEN)
  const files = Bun.spawnSync(["grep", "-rlF", TOKEN, sandbox.root]).stdout.toString()
  expect(files).toBe("")
})

test("persona files reach the model and stay inside their directory", async () => {
  await byTheAgent("persona", "true")
  const said = JSON.stringify(model.requests.at(-1)?.messages)
  expect(said).toContain("Always speak of the sea.")
  expect(said).toContain("is a clone of")
  expect(existsSync(join(sandbox.stateDir, "session/persona/03-x.md"))).toBeTrue()
  expect(existsSync(join(sandbox.root, "x.md"))).toBeFalse()
})

test("the stale browser lock of another machine is removed", () => {
  expect(
    existsSync(join(sandbox.environment["HOME"] ?? "", ".config/chromium/SingletonLock")),
  ).toBeFalse()
})

test("the pre-snapshot hook removes keys from the disk, and prompts run again after the post-snapshot hook", async () => {
  const auth = join(sandbox.stateDir, "session/opencode/xdg/data/opencode/auth.json")
  const settings = join(sandbox.stateDir, "session/opencode/config/opencode.json")
  const has = async (file: string, bytes: string) => (await readFile(file)).includes(bytes)
  const database = join(sandbox.stateDir, "session/state.db")
  const changes = `${database}-wal`
  // OpenCode gets the token of the key broker; the key itself is only in the saved config, which is encrypted.
  for (const file of [auth, database, changes]) expect(await has(file, model.apiKey)).toBeFalse()
  expect(await has(changes, "sealed:")).toBeTrue()
  const report = JSON.parse(await booted.inside("sandpiper", "hook", "pre-snapshot"))
  expect(report).toMatchObject({ turns: "finished", flushed: true, scrubbed: 4 })
  expect([auth, settings].filter((path) => existsSync(path))).toEqual([])
  expect(await has(database, "sealed:")).toBeFalse()
  expect(await booted.inside("sandpiper", "hook", "post-snapshot")).toBe('{"awake":true}\n')
  expect([auth, settings].filter((path) => existsSync(path))).toEqual([auth, settings])
  expect(existsSync(settings)).toBeTrue()
  expect(await byTheAgent("after", "echo awake")).toContain("awake")
})

test("after a restart the runner keeps uncommitted work and its epoch on the link", async () => {
  await writeFile(join(sandbox.workDir, "project/README.md"), "half a thought")
  const { code } = await booted.stop()
  expect(code).toBe(0)
  const from = agent.frames.length
  const env = { REPO_URL: server.url("project"), GITHUB_TOKEN: TOKEN }
  booted = boot(sandbox, { env })
  await idle(from)
  expect(await readFile(join(sandbox.workDir, "project/README.md"), "utf8")).toBe("half a thought")
  expect(await booted.log()).toContain("host.restored")
  expect(new Set(agent.hellos.map(({ epoch }) => epoch)).size).toBe(1)
})

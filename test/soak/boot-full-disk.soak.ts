/** Boots on a full disk: a full workspace is a warning; a full state directory ends the runner with an error. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { type Booted, boot, requireRoot } from "../kit/boot.ts"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const TOKEN = "ghp_the-token-of-the-full-disk"
let model: ScriptedModel
let agent: TestSessionAgent
let server: GitServer
let sandbox: Sandbox
let disk: string
let booted: Booted

beforeEach(async () => {
  requireRoot()
  model = await startScriptedModel()
  server = await startGitServer(TOKEN)
  await server.commit("project", "big", "x".repeat(3_000_000))
  agent = startTestSessionAgent({ config: scriptedConfig(model) })
  sandbox = await createSandbox(agent)
  disk = join(sandbox.root, "disk")
  await mkdir(disk)
  Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk])
  Bun.spawnSync(["dd", "if=/dev/zero", `of=${join(disk, "filler")}`], { stderr: "ignore" })
})
afterEach(async () => {
  if (booted.child.exitCode === null) await booted.stop()
  Bun.spawnSync(["umount", disk])
  await agent.stop()
  await server.stop()
  await model.stop()
  await sandbox.remove()
})

test("a full workspace is reported by /ready and prompts still run", async () => {
  booted = boot(sandbox, {
    env: { WORK_DIR: disk, REPO_URL: server.url("project"), GITHUB_TOKEN: TOKEN },
  })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  const { parts } = await booted.ready()
  expect(parts["workspace"]).toMatchObject({ state: "degraded" })
  expect(parts["workspace"]?.why).toMatch(/No space left|write error|index-pack/)
  expect(parts["agent"]?.state).toBe("ready")
  model.on("full", [text("Still at work.")])
  agent.say({ type: "prompt", messageId: "p1", content: "@@full@@" })
  const { finalText } = await agent.frame("message.finalize")
  expect(finalText).toBe("Still at work.")
})

test("a full state directory ends the runner with an error that names the directory and its setting", async () => {
  booted = boot(sandbox, { env: { SANDPIPER_STATE_DIR: join(disk, "state") } })
  expect(await booted.child.exited).toBe(1)
  const log = await booted.log()
  expect(log).toContain(join(disk, "state"))
  expect(log).toContain("SANDPIPER_STATE_DIR")
})

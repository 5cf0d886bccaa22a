/**
 * A hostile agent with a user of its own puts links in the places where the runner, which is root, writes: in place of its clone
 * while the runner works, and before the next runner of the sandbox clones again.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, mkdir, readdir } from "node:fs/promises"
import { join } from "node:path"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { untilTrue } from "../kit/until-true.ts"

const AGENT_USER = process.env["ATTACK_AGENT_USER"] ?? "nobody"
const BODY = "-sS --max-time 20 -X POST -H 'content-type: application/json'"

/** `place` is an empty directory of root, as many a directory of programs is. */
const attack = (place: string) => `
cd .. && mv project away && ln -s ${place} project
call() { curl ${BODY} -H "authorization: Bearer $SANDPIPER_API_TOKEN" -d "$2" "$SANDPIPER_URL$1"; echo; }
call /api/env/apply '{"files":[{"path":"cron.d/job","variables":{"A":"b"}}]}'
call /api/env/apply '{"files":[{"path":"job","variables":{"A":"b"}}]}'
call /api/website '{"template":"static","directory":"site","waitSeconds":0}'
call /api/website '{"template":"static","waitSeconds":0}'
rm project && mv away project
call /api/env/apply '{"files":[{"path":".env","variables":{"A":"b"}}]}'`

describe.if(process.getuid?.() === 0)("root writes nothing outside the workspace", () => {
  let model: ScriptedModel
  let agent: TestSessionAgent
  let git: GitServer
  let sandbox: Sandbox
  let runner: Bun.Subprocess
  let place = ""
  let said = ""

  let starts = 0
  const logFile = () => join(sandbox.root, `log-${starts}`)
  const log = () => Bun.file(logFile()).text()
  const start = () => {
    starts += 1
    runner = Bun.spawn([...runnerFromSource, "run"], {
      env: { ...sandbox.environment, AGENT_USER, REPO_URL: git.url("project") },
      stdin: "ignore",
      stdout: "ignore",
      stderr: Bun.file(logFile()),
    })
  }
  const stop = async () => {
    runner.kill("SIGTERM")
    await runner.exited
  }
  const run = async (id: string, command: string) => {
    model.on(id, [
      reply(tool("bash", { command, description: "attacks", timeout: 60_000 })),
      text("done"),
    ])
    agent.say({ type: "prompt", messageId: id, content: `@@${id}@@`, model: "scripted/m1" })
    await agent.until(
      () => agent.frames.some((frame) => frame.type === "complete" && frame.messageId === id),
      `the end of the turn ${id}`,
    )
    return JSON.stringify(agent.frames)
  }

  beforeAll(async () => {
    model = await startScriptedModel()
    git = await startGitServer("a password")
    await git.commit("project", "op", "#!/bin/sh\n")
    agent = startTestSessionAgent({
      config: { ...scriptedConfig(model), providerKeys: {} },
    })
    sandbox = await createSandbox(agent)
    await chmod(sandbox.root, 0o755)
    place = join(sandbox.root, "of-root")
    await mkdir(place, { mode: 0o755 })
    sandbox.environment["GITHUB_TOKEN"] = "a password"
    start()
    await agent.until(
      () => agent.frames.some((frame) => frame.type === "agentStatus" && frame.status === "idle"),
      "an idle agent",
    )
    said = await run("links", attack(place))
  }, 120_000)

  afterAll(async () => {
    await stop()
    await agent.stop()
    await git.stop()
    await model.stop()
    await sandbox.remove()
  })

  test("the attack reached the API, and the same calls without a link work", async () => {
    expect(said).toContain("link out of the workspace")
    expect(await Bun.file(join(sandbox.workDir, "project", ".env")).text()).toBe("A=b\n")
  })

  test("env files and websites are not written through a link in the place of the clone", async () => {
    expect(await readdir(place)).toEqual([])
  })

  test("the next runner does not clone through a link to an empty directory of root", async () => {
    const programs = join(sandbox.root, "programs-of-root")
    await mkdir(programs, { mode: 0o755 })
    await run("planted", `cd .. && mv project away && ln -s ${programs} project`)
    await stop()
    start()
    await untilTrue(
      async () => /git\.(?:cloned|kept|not-prepared)/.test(await log()),
      "a try to clone",
    )
    expect(await log()).toContain("exists and is not a git clone")
    expect(await readdir(programs)).toEqual([])
  })
})

/**
 * What the agent's shell can read of the runner: environment, command lines, files. The agent runs as root in the first
 * group and as another user in the second. Both groups share the model and the session agent, and each has a runner of its own.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { agentPid } from "../kit/processes.ts"
import { scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const SECRETS = {
  JWT_SECRET: "the-jwt-secret-of-this-test",
  OPENCODE_SERVER_PASSWORD: "the-opencode-password-of-this-test",
  ANTHROPIC_API_KEY: "sk-ant-key-of-this-test",
  SOME_TOKEN: "a-token-that-is-not-allowed",
}

let model: ScriptedModel
let agent: TestSessionAgent

beforeAll(async () => {
  model = await startScriptedModel()
  // Other tests run at the same time and may put their token on a command line: use a token that is unique to this file.
  agent = startTestSessionAgent({
    config: scriptedConfig(model),
    token: "the-runner-token-of-this-test",
  })
})

afterAll(async () => {
  await agent.stop()
  await model.stop()
})

/** Has the agent run a shell command; resolves with its output. */
const shell = async (messageId: string, command: string): Promise<string> => {
  model.on(messageId, [reply(tool("bash", { command, description: "looks" })), text("seen")])
  agent.say({ type: "prompt", messageId, content: `@@${messageId}@@`, model: "scripted/m1" })
  await agent.frame(
    "agentStatus",
    (frame) => frame.status === "idle" && frame.messageId === messageId,
  )
  const update = agent.frames.findLast(
    (frame) => frame.type === "message.part.tool-update" && frame.messageId === messageId,
  )
  return update?.type === "message.part.tool-update" ? String(update.result) : ""
}

describe("the agent's shell", () => {
  let runner: TestRunner
  beforeAll(async () => {
    const from = agent.frames.length
    runner = await startRunner(agent, {
      ...SECRETS,
      MY_SETTING: "let-through",
      AGENT_ENV_ALLOW: "MY_SETTING,JWT_SECRET",
      GIT_AUTHOR_NAME: "A. Author",
    })
    await agent.frame("agentStatus", ({ status }) => status === "idle", from)
  })
  afterAll(() => runner.stop())

  test("the agent's environment holds the allowed variables and no secret of the runner", async () => {
    const seen = await shell("env", "env")
    for (const secret of [...Object.values(SECRETS), agent.token])
      expect(seen).not.toContain(secret)
    expect(seen).not.toContain("OPENCODE_SERVER_PASSWORD")
    for (const line of ["MY_SETTING=let-through", "GIT_AUTHOR_NAME=A. Author", "SANDPIPER_URL="]) {
      expect(seen).toContain(line)
    }
    expect(seen).toMatch(/SANDPIPER_API_TOKEN=.{16}/)
  })

  test("no command line on the machine shows a secret", async () => {
    const lines = await shell("ps", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for (const secret of [...Object.values(SECRETS), agent.token])
      expect(lines).not.toContain(secret)
  })

  test("OpenCode rejects a request without its password", async () => {
    const port = /--port (\d+)/.exec(
      (await Bun.file(`/proc/${agentPid(runner)}/cmdline`).text()).replaceAll("\0", " "),
    )?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/config`)).status).toBe(401)
  })

  test("the runner's log contains no secret", () => {
    const log = runner.log.join("\n")
    for (const secret of [...Object.values(SECRETS), agent.token]) expect(log).not.toContain(secret)
  })
})

describe.if(process.getuid?.() === 0)("an agent that runs as another user", () => {
  let runner: TestRunner
  beforeAll(async () => {
    const from = agent.frames.length
    runner = await startRunner(
      agent,
      { ...SECRETS, AGENT_USER: "nobody" },
      { furnish: (sandbox) => chmod(sandbox.root, 0o755) },
    )
    await agent.frame("agentStatus", ({ status }) => status === "idle", from)
  })
  afterAll(() => runner.stop())

  test("an agent with its own user owns the workspace and the files it writes", async () => {
    expect(await shell("whoami", "whoami; echo mine > file.txt; stat -c %U file.txt .")).toBe(
      "nobody\nnobody\nnobody\n",
    )
  })

  test("an agent with its own user cannot replace a file or a directory that the runner reads or writes", async () => {
    const session = join(runner.sandbox.stateDir, "session")
    const tried = [
      `ln -sf /etc/shadow ${session}/opencode.log`,
      `mv ${session}/opencode/config ${session}/opencode/old`,
      `ln -s /etc ${session}/opencode/config.new`,
      `ln -s /etc/shadow ${session}/opencode/models.json.new`,
    ]
    const seen = await shell("swap", tried.map((command) => `${command} 2>&1`).join("; "))
    expect(seen.match(/Permission denied/g)).toHaveLength(tried.length)
  })

  test("an agent with its own user cannot read the runner's state files or its environment", async () => {
    const { stateDir } = runner.sandbox
    const files = [
      join(stateDir, "session/state.db"),
      join(stateDir, "session/opencode-run.json"),
      `/proc/${process.pid}/environ`,
    ]
    const seen = await shell(
      "peek",
      `ls ${stateDir}; for f in ${files.join(" ")}; do cat $f; done 2>&1`,
    )
    expect(seen.match(/Permission denied/g)).toHaveLength(4)
    for (const secret of Object.values(SECRETS)) expect(seen).not.toContain(secret)
  })
})

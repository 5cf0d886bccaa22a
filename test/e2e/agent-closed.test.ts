/** What the agent can see of the runner: its environment, its command lines, its files; as root and as another user. */
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
  SOME_TOKEN: "a-token-nobody-allowed",
}

let model: ScriptedModel
let agent: TestSessionAgent

beforeAll(async () => {
  model = await startScriptedModel()
  // A token of its own: other tests, which run at the same time, may show theirs to the whole machine.
  agent = startTestSessionAgent({
    config: scriptedConfig(model),
    token: "the-runner-token-of-this-test",
  })
})

afterAll(async () => {
  await agent.stop()
  await model.stop()
})

/** Runs a command as the agent does and gives back what it printed. */
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
    runner = await startRunner(agent, {
      ...SECRETS,
      MY_SETTING: "let-through",
      AGENT_ENV_ALLOW: "MY_SETTING,JWT_SECRET",
      GIT_AUTHOR_NAME: "A. Author",
    })
    await agent.frame("agentStatus", ({ status }) => status === "idle")
  })
  afterAll(() => runner.stop())

  test("sees in its environment what is on the list, and no secret of the runner", async () => {
    const seen = await shell("env", "env")
    for (const secret of [...Object.values(SECRETS), agent.token])
      expect(seen).not.toContain(secret)
    expect(seen).not.toContain("OPENCODE_SERVER_PASSWORD")
    for (const line of ["MY_SETTING=let-through", "GIT_AUTHOR_NAME=A. Author", "SANDPIPER_URL="]) {
      expect(seen).toContain(line)
    }
    expect(seen).toMatch(/SANDPIPER_API_TOKEN=.{16}/)
  })

  test("sees no secret on any command line", async () => {
    const lines = await shell("ps", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for (const secret of [...Object.values(SECRETS), agent.token])
      expect(lines).not.toContain(secret)
  })

  test("finds OpenCode still closed without its password", async () => {
    const port = /--port (\d+)/.exec(
      (await Bun.file(`/proc/${agentPid(runner)}/cmdline`).text()).replaceAll("\0", " "),
    )?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/config`)).status).toBe(401)
  })

  test("finds nothing of all this in the runner's log", () => {
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

  test("works in a workspace of its own", async () => {
    expect(await shell("whoami", "whoami; echo mine > file.txt; stat -c %U file.txt .")).toBe(
      "nobody\nnobody\nnobody\n",
    )
  })

  test("cannot put anything in the place of what the runner reads and writes", async () => {
    const { stateDir } = runner.sandbox
    const tried = [
      `ln -sf /etc/shadow ${stateDir}/opencode.log`,
      `mv ${stateDir}/opencode/config ${stateDir}/opencode/old`,
      `ln -s /etc ${stateDir}/opencode/config.new`,
      `ln -s /etc/shadow ${stateDir}/opencode/models.json.new`,
    ]
    const seen = await shell("swap", tried.map((command) => `${command} 2>&1`).join("; "))
    expect(seen.match(/Permission denied/g)).toHaveLength(tried.length)
  })

  test("can read neither the runner's state nor its processes", async () => {
    const { stateDir } = runner.sandbox
    const files = [
      join(stateDir, "state.db"),
      join(stateDir, "opencode-run.json"),
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

/**
 * Short-lived tokens for git and the real `gh` in a sandbox: the hub issues them with its GitHub App, the runner hands them
 * to one run of a program, and no file and no environment holds one.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { makeRepository } from "../kit/conversation.ts"
import { makeAppKey } from "../kit/github-app-key.ts"
import { type GithubApi, startGithubApi } from "../kit/github-api.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { killOpenCode } from "../kit/opencode-processes.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(180_000)
const SESSION = "test-session"
/** What GitHub states; the runner replaces such a token after half of it. The token works until the test expires it. */
const LIFE_MS = 20_000
let github: GithubApi
let model: ScriptedModel
let sandbox: Sandbox
let hub: LocalHub
let client: TestClient
let runner: Bun.Subprocess

beforeAll(async () => {
  const key = await makeAppKey()
  github = startGithubApi(
    [{ fullName: "birds/heron", defaultBranch: "main", isPrivate: true, files: {} }],
    { app: { id: "77", publicKey: key.publicKey, installation: "4242", lifeMs: LIFE_MS } },
  )
  model = await startScriptedModel()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  // The clone is there already: this machine reaches no git host.
  const clone = join(sandbox.workDir, "heron")
  await mkdir(clone)
  await makeRepository({ workDir: clone })
  const url = "https://github.com/birds/heron.git"
  await execa("git", ["remote", "add", "origin", url], { cwd: clone })
  const ghFolder = join(sandbox.root, "gh")
  await mkdir(ghFolder, { recursive: true })
  await writeFile(join(ghFolder, "config.yml"), `http_unix_socket: ${github.socket}\n`)
  hub = await startHubBeside(sandbox, SESSION, model, {
    environment: {
      ...sandbox.environment,
      GITHUB_APP_ID: "77",
      GITHUB_APP_PRIVATE_KEY: key.privatePem,
      GITHUB_APP_INSTALLATIONS: JSON.stringify({ "user:local": "4242" }),
      GITHUB_API_URL: github.url,
      GITHUB_SERVER_URL: "https://github.com",
    },
  })
  runner = Bun.spawn([requireBinary(), "run"], {
    env: {
      ...sandbox.environment,
      DO_WS_URL: hub.runnerUrl(SESSION),
      REPO_URL: url,
      GIT_PULL_ON_RESTORE: "never",
      GIT_TOKENS: "session",
      GH_CONFIG_DIR: join(sandbox.root, "gh"),
      AGENT_ENV_ALLOW: "GH_CONFIG_DIR",
    },
    stdin: "ignore",
    stdout: Bun.file(join(sandbox.root, "runner.out")),
    stderr: Bun.file(join(sandbox.root, "runner.err")),
  })
  client = await connectClient(hub.url, CLIENT_TOKEN, { session: SESSION })
})
afterAll(async () => {
  client.close()
  runner.kill("SIGTERM")
  await runner.exited
  await killOpenCode(sandbox)
  await hub.stop()
  await model.stop()
  await github.stop()
  await sandbox.remove()
})

/** What a command of the agent prints. */
const run = async (name: string, command: string): Promise<string> => {
  model.on(name, [tool("bash", { command, description: name }), text("Done.")])
  const reply = await client.ask({ type: "prompt", content: `@@${name}@@` })
  if (reply["ok"] !== true) throw new Error(`the prompt was refused: ${JSON.stringify(reply)}`)
  const { messageId } = reply
  const own = () => client.messages().filter((one) => one.promptId === messageId)
  const isOver = () =>
    own().some(({ role, status }) => role === "assistant" && status !== "streaming")
  await client.until(isOver, `the end of ${name}`, 120_000)
  return JSON.stringify(own())
}

/** Every file below a folder that contains the text. */
const filesWith = (folder: string, wanted: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = join(entry.parentPath, entry.name)
    return entry.isFile() && statSync(path).size < 50_000_000 && readFileSync(path).includes(wanted)
      ? [path]
      : []
  })

test("gh and git in the sandbox get one token on demand, and a new one before it expires", async () => {
  expect(github.issued).toEqual([])
  expect(await run("first", "gh api repos/birds/heron --jq .full_name")).toContain("birds/heron")
  expect(github.used).toEqual(["1 GET /repos/birds/heron"])
  expect(github.issued[0]?.repositories).toEqual(["heron"])

  const { expiresAt = 0 } = github.issued[0] ?? {}
  await untilTrue(() => Date.now() >= expiresAt - LIFE_MS / 2, "half of the life of the token")
  github.expire()
  expect(await run("second", "gh api repos/birds/heron --jq .private")).toContain("true")
  expect(github.used).toEqual(["1 GET /repos/birds/heron", "2 GET /repos/birds/heron"])
  const fill = "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill"
  // Only the length is printed: what a command prints is stored with the conversation.
  const filled = await run("git", `${fill} | awk -F= '/^password/ { print "length", length($2) }'`)
  expect(filled).toContain(`length ${github.issued[1]?.token.length}`)
  const other = fill.replace("github.com", "evil.example")
  expect(await run("other", `GIT_TERMINAL_PROMPT=0 ${other} 2>&1 | grep -c ^password`)).toContain(
    "0",
  )
})

test("no token is in the agent's environment, on a command line, in a log or in a file of the sandbox or the hub", async () => {
  const look = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'; gh --version"
  const shown = await run("environment", look)
  expect(shown).toContain("gh version")
  expect(shown).toContain("SANDPIPER_API_TOKEN")
  expect(github.issued.length).toBeGreaterThan(1)
  for (const { token } of github.issued) {
    expect(shown).not.toContain(token)
    expect(filesWith(sandbox.root, token)).toEqual([])
  }
  expect(shown).not.toMatch(/GH_TOKEN|GITHUB_TOKEN/)
})

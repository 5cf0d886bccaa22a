/**
 * Everything of one installation on loopback: the compiled runner with the real OpenCode, the hub on one of its hosts, a
 * client, a second session, and doubles of the services outside that speak their real APIs.
 */
import { existsSync, readFileSync } from "node:fs"
import { delimiter, join } from "node:path"
import { execa } from "execa"
import { SignJWT } from "jose"
import { connectClient, type TestClient } from "../../hub/kit/client.ts"
import { type FakeRunner, startFakeRunner } from "../../hub/kit/fake-runner.ts"
import { RUNNER_TOKEN } from "../../hub/kit/hub.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { makeRepository } from "../../kit/conversation.ts"
import { GITHUB_TOKEN, type GithubApi, startGithubApi } from "../../kit/github-api.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../../kit/model.ts"
import { OP_TOKEN, writeOnePassword } from "../../kit/onepassword.ts"
import { startParallel } from "../../kit/parallel.ts"
import { writePrograms } from "../../kit/programs.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../../kit/runner.ts"
import { SLACK_SECRET, SLACK_TOKEN, type SlackApi, startSlackApi } from "../../kit/slack-api.ts"
import { startTcpProxy, type TcpProxy } from "../../kit/tcp-proxy.ts"
import {
  startTelegramApi,
  TELEGRAM_SECRET,
  TELEGRAM_TOKEN,
  type TelegramApi,
} from "../../kit/telegram-api.ts"
import { textOf } from "../../../src/demo/request.ts"
import { type HostName, hubHosts, liftPromptLimit, OWN_CONNECTION, putSession } from "./hosts.ts"

export interface ToolCallResult {
  readonly promptId: string
  /** As the client shows it. */
  readonly status: string
  /** The result or the error, as the client shows it. */
  readonly shown: string
  /** The result that the model reads in its next call. */
  readonly read: string
}

export interface House {
  readonly host: HostName
  readonly url: string
  readonly model: ScriptedModel
  /** Watches the session `main`. */
  readonly client: TestClient
  /** The runner of the session `other`: what another session reads and writes. */
  readonly other: FakeRunner
  readonly github: GithubApi
  readonly slack: SlackApi
  readonly telegram: TelegramApi
  readonly parallel: ReturnType<typeof startParallel>
  readonly sandbox: Sandbox
  /** The connection between runner and hub. */
  readonly link: TcpProxy
  readonly runner: Bun.Subprocess
  /** Has the model call a tool on a channel of its own and waits for the end of the turn. */
  readonly call: (name: string, args: Readonly<Record<string, unknown>>) => Promise<ToolCallResult>
  /** Sends a prompt of a client and returns its id. */
  readonly say: (content: string, fields?: object) => Promise<string>
  /** Waits until every message of a prompt has ended. */
  readonly ended: (promptId: string) => Promise<void>
  /** Sends a prompt to another session over HTTP. A refusal throws an error with its text. */
  readonly tell: (session: string, content: string) => Promise<void>
  /** A call of the hub's HTTP API with the client's token. */
  readonly api: (method: string, path: string, body?: object) => Promise<Response>
  /** A call of the gateway as a person. */
  readonly gateway: (path: string, init?: { readonly method: string }) => Promise<Response>
  readonly inWorkspace: (path: string) => string
  readonly stop: () => Promise<void>
}

export const OTHER_TITLE = "The session beside it"
export const SECRET_VALUE = "sk_live_4f1d9a7be2c05318"
const JWT_SECRET = "a secret of the tests only"
const HERON = {
  fullName: "birds/heron",
  defaultBranch: "trunk",
  isPrivate: true,
  files: { "docs/nest.md": "The nest is in the reeds.\n" },
}

export const startHouse = async (host: HostName): Promise<House> => {
  const model = await startScriptedModel()
  const github = startGithubApi([HERON])
  const slack = startSlackApi()
  const telegram = startTelegramApi()
  const parallel = startParallel()
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  await makeRepository(sandbox)
  const remote = ["remote", "add", "origin", "https://github.com/birds/heron.git"]
  await execa("git", remote, { cwd: sandbox.workDir })
  const hub = await hubHosts[host]({
    sandbox,
    variables: {
      GITHUB_TOKEN,
      GITHUB_API_URL: github.url,
      SLACK_SIGNING_SECRET: SLACK_SECRET,
      SLACK_BOT_TOKEN: SLACK_TOKEN,
      SLACK_API_URL: slack.apiUrl,
      SLACK_SESSION: "main",
      TELEGRAM_BOT_TOKEN: TELEGRAM_TOKEN,
      TELEGRAM_SECRET_TOKEN: TELEGRAM_SECRET,
      TELEGRAM_API_URL: telegram.url,
      TELEGRAM_SESSION: "main",
    },
  })
  await liftPromptLimit(hub)
  await putSession(hub, "other", { title: OTHER_TITLE })
  // A runner reaches its own session, its ancestors and its descendants only.
  await putSession(hub, "main", { config: scriptedConfig(model), parent: "other" })
  const wsUrl = hub.url.replace(/^http/, "ws")
  const other = startFakeRunner({
    url: `${wsUrl}/sessions/other/ws`,
    token: RUNNER_TOKEN,
    stateDir: join(sandbox.root, "other"),
    answer: ({ content }) => [`The other session heard: ${content}`],
    eager: true,
  })
  const link = await startTcpProxy(Number(new URL(hub.url).port))
  const runner = await spawnRunner(sandbox, `ws://127.0.0.1:${link.port}/sessions/main/ws`, {
    PARALLEL_API_URL: parallel.url,
  })
  const client = await connectClient(hub.url, hub.clientToken, { session: "main" })
  await client.until(
    () => (client.state("agent") as { status?: string } | undefined)?.status === "idle",
    "agent that can take prompts",
  )

  const say: House["say"] = async (content, fields = {}) => {
    const reply = await client.ask({ type: "prompt", content, ...fields })
    if (reply["ok"] !== true) throw new Error(`the prompt was refused: ${JSON.stringify(reply)}`)
    return String(reply["messageId"])
  }
  const answersTo = (promptId: string) =>
    client
      .messages()
      .filter((message) => message.role === "assistant" && message.promptId === promptId)
  const ended: House["ended"] = (promptId) =>
    client.until(
      () =>
        client.queue().every(({ id }) => id !== promptId) &&
        answersTo(promptId).length > 0 &&
        answersTo(promptId).every(({ status }) => status !== "streaming"),
      `end of the prompt ${promptId}`,
    )
  const api: House["api"] = (method, path, body) =>
    fetch(`${hub.url}${path}`, {
      method,
      ...OWN_CONNECTION,
      headers: { authorization: `Bearer ${hub.clientToken}` },
      ...(body && { body: JSON.stringify(body) }),
    })
  let calls = 0

  return {
    host,
    url: hub.url,
    model,
    client,
    other,
    github,
    slack,
    telegram,
    parallel,
    sandbox,
    link,
    runner,
    say,
    ended,
    call: async (name, args) => {
      calls += 1
      const script = `call-${calls}-${name}`
      model.on(script, [tool(name, args), text(`That was ${name}.`)])
      const promptId = await say(`@@${script}@@`, { channelType: "rows", channelId: script })
      await ended(promptId)
      const parts = answersTo(promptId).flatMap((message) => message.parts)
      const found = parts.find(({ kind }) => kind === "tool")?.data ?? {}
      const { status, result, error } = found as Record<string, unknown>
      return {
        promptId,
        status: String(status),
        shown: shownText(result ?? error),
        read: readByModel(model, script),
      }
    },
    tell: async (session, content) => {
      const response = await api("POST", `/sessions/${session}/prompt`, { content })
      if (!response.ok) throw new Error(`the prompt was refused: ${await response.text()}`)
    },
    api,
    gateway: async (path, init) => {
      const token = await new SignJWT({ sid: "main" })
        .setProtectedHeader({ alg: "HS256" })
        .setSubject("a person")
        .setExpirationTime("5m")
        .sign(new TextEncoder().encode(JWT_SECRET))
      return fetch(`http://127.0.0.1:${gatewayPort(sandbox)}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${token}` },
      })
    },
    inWorkspace: (path) => join(sandbox.workDir, path),
    stop: async () => {
      client.close()
      await other.stop()
      runner.kill("SIGTERM")
      await runner.exited
      await link.stop()
      await hub.stop()
      await Promise.all([model, github, slack, telegram, parallel].map((part) => part.stop()))
      await sandbox.remove()
    },
  }
}

const programsFolder = join(import.meta.dir, "../../kit/programs")

const spawnRunner = async (sandbox: Sandbox, url: string, more: Record<string, string>) => {
  const bin = await writePrograms(sandbox.root)
  await writeOnePassword(bin, SECRET_VALUE)
  const runner = Bun.spawn([requireBinary(), "run"], {
    env: {
      ...sandbox.environment,
      // The tools of a setup session are tested too.
      SESSION_KIND: "setup",
      PATH: [programsFolder, bin, sandbox.environment["PATH"]].join(delimiter),
      DO_WS_URL: url,
      SESSION_ID: "main",
      JWT_SECRET,
      PARENT_SESSION_ID: "other",
      OP_SERVICE_ACCOUNT_TOKEN: OP_TOKEN,
      PARALLEL_API_KEY: "key-of-parallel",
      SANDPIPER_TOOLS: "all",
      SANDPIPER_PUBLIC_URL: "https://sandbox.example/",
      WHISPER_MODELS: join(sandbox.root, "models"),
      ...more,
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: Bun.file(join(sandbox.root, "runner.log")),
  })
  await untilTrue(() => gatewayPort(sandbox) !== undefined, "start of the runner")
  return runner
}

const gatewayPort = ({ root }: Sandbox): string | undefined => {
  const file = join(root, "runner.log")
  const log = existsSync(file) ? readFileSync(file, "utf8") : ""
  return /daemon.started","gatewayPort":(\d+)/.exec(log)?.[1]
}

const shownText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "")

/** The tool result in the last call of the model for this script. */
const readByModel = ({ requests }: ScriptedModel, script: string): string => {
  const last = requests.findLast(({ messages }) =>
    messages.some((message) => textOf(message).includes(`@@${script}@@`)),
  )
  const result = last?.messages.findLast(({ role }) => role === "tool")
  return result ? textOf(result) : ""
}

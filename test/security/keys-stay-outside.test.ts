/**
 * A hostile agent with a user of its own collects everything that it can read: environments, command lines, files, the API of
 * OpenCode, the broker. No secret that the runner was given may be in it.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { writeAddress } from "../../src/hub/hosts/bun/address.ts"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { startHttpMcp } from "../kit/mcp-server.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig, spawnRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const fresh = (name: string): string => `${name}-${crypto.randomUUID().replaceAll("-", "")}`
const secrets = {
  "the provider key of the environment": fresh("sk-env"),
  "the provider key of the session agent": fresh("sk-hub"),
  "the key of a custom provider": fresh("sk-own"),
  "the key of Parallel": fresh("pk"),
  "the header of an MCP server": fresh("mcp"),
  "the git token": fresh("ghp"),
  "the runner token": fresh("runner"),
  "the JWT secret": fresh("jwt"),
  "the hub's client token": fresh("hub"),
}
type Name = keyof typeof secrets
const CANARY = fresh("canary")

/** `test/attack/as-agent` runs this file in namespaces with the user `agent`, where every listener is the runner's or the test's. */
const AGENT_USER = process.env["ATTACK_AGENT_USER"] ?? "nobody"
const isAlone = AGENT_USER === "agent"

/** Asks every server of the namespace, with and without the agent's own token, and every Unix socket. */
const askAll = `
  ports=$(awk '$4 == "0A" { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp | sort -u)
  for hex in $ports; do
    for path in / /config /upstreams /v1/models /sessions /api/tunnels /api/secrets/list /git-credential; do
      curl -sS --max-time 2 "http://127.0.0.1:$((16#$hex))$path"
      curl -sS --max-time 2 -H "authorization: Bearer $SANDPIPER_API_TOKEN" "http://127.0.0.1:$((16#$hex))$path"
    done
  done
  for socket in $(awk 'index($8, "/") == 1 { print $8 }' /proc/net/unix); do
    curl -sS --max-time 2 --unix-socket "$socket" http://x/
  done
  find /proc/[0-9]*/fd -lname '/*' 2>/dev/null | while read -r link; do
    [ -f "$link" ] && head -c 2000000 "$link"
  done
  for pid in /proc/[0-9]*; do cat "$pid/mem" "$pid/maps" "$pid/stack"; done
  echo ASKED-ALL`

/** Writes what the agent's user can read to one file; the test searches it, so that no secret is in the script itself. */
const collect = (stateDir: string, sandboxRoot: string) => `
out=$PWD/collected.bin
echo ${CANARY} > canary.txt
{
  env
  cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline
  find "$HOME" "$PWD" ${stateDir} ${sandboxRoot} -xdev -type f ! -name collected.bin -size -20M -exec cat {} +
  find /tmp /var/tmp /dev/shm /run -xdev -maxdepth 2 -type f -size -1M -newer canary.txt ! -name collected.bin -exec cat {} +
  git config --list
  ls -laR ${stateDir}
  curl -sS --unix-socket ${stateDir}/session/broker.sock -X PUT -d '{}' http://broker/upstreams
  for pid in $(grep -lz 'serve' /proc/[0-9]*/cmdline | tr -dc '0-9\\n'); do
    [ -r /proc/$pid/environ ] || continue
    password=$(tr '\\0' '\\n' < /proc/$pid/environ | sed -n 's/^OPENCODE_SERVER_PASSWORD=//p')
    port=$(tr '\\0' ' ' < /proc/$pid/cmdline | sed -n 's/.*--port \\([0-9]*\\).*/\\1/p')
    for path in config config/providers provider global/config; do
      # An OpenCode of another test may be stopped: it takes the connection and does not answer.
      curl -sS --max-time 5 -u "opencode:$password" "http://127.0.0.1:$port/$path"
    done
  done
  # Reads the broker's address and token from OpenCode's files, as the agent can.
  base=$(grep -ho 'http://127.0.0.1:[0-9]*/scripted' ${stateDir}/session/opencode/config/opencode.json)
  token=$(grep -o '"key": "[^"]*"' ${stateDir}/session/opencode/xdg/data/opencode/auth.json | head -1 | cut -d'"' -f4)
  curl -sS -i -H "authorization: Bearer $token" "$base/models"
  curl -sS -i -H "authorization: Bearer $token" "\${base%/*}/refusing/models"
  ${isAlone ? askAll : ""}
} > "$out" 2>/dev/null
id -un
echo done`

const encodingsOf = (secret: string): readonly string[] => [
  secret,
  Buffer.from(secret).toString("hex"),
  ...[0, 1, 2].map((shift) =>
    Buffer.from(`${"x".repeat(shift)}${secret}`)
      .toString("base64")
      .slice(4, -6),
  ),
]

describe.if(process.getuid?.() === 0)("everything that the agent's user can read", () => {
  let model: ScriptedModel
  let agent: TestSessionAgent
  let git: GitServer
  let sandbox: Sandbox
  let runner: ReturnType<typeof spawnRunner>
  let found = ""
  const refusing = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      new Response(`wrong key: ${request.headers.get("authorization")}`, { status: 401 }),
  })

  const mcp = startHttpMcp(secrets["the header of an MCP server"])
  const research: (string | null)[] = []
  const parallel = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      research.push(request.headers.get("x-api-key"))
      return Response.json({ results: [{ url: "https://found.example/" }] })
    },
  })

  beforeAll(async () => {
    model = await startScriptedModel()
    git = await startGitServer(secrets["the git token"])
    await git.commit("project", "README.md", "first\n")
    const scripted = scriptedConfig(model)
    agent = startTestSessionAgent({
      token: secrets["the runner token"],
      config: {
        mcpServers: {
          far: {
            type: "remote",
            url: mcp.url,
            headers: { "x-key": secrets["the header of an MCP server"] },
          },
        },
        providerKeys: { openrouter: secrets["the provider key of the session agent"] },
        customProviders: [
          ...(scripted.customProviders ?? []),
          {
            providerId: "refusing",
            displayName: "Refusing",
            baseUrl: refusing.url.origin,
            apiKey: secrets["the key of a custom provider"],
            models: [{ id: "m" }],
          },
        ],
      },
    })
    sandbox = await createSandbox(agent)
    await chmod(sandbox.root, 0o755)
    await mkdir(join(sandbox.stateDir, "hub"), { recursive: true })
    writeAddress(sandbox.stateDir, {
      url: "http://127.0.0.1:1",
      token: secrets["the hub's client token"],
    })
    runner = spawnRunner(sandbox, {
      AGENT_USER,
      ANTHROPIC_API_KEY: secrets["the provider key of the environment"],
      PARALLEL_API_KEY: secrets["the key of Parallel"],
      PARALLEL_API_URL: parallel.url.origin,
      JWT_SECRET: secrets["the JWT secret"],
      REPO_URL: git.url("project"),
      GITHUB_TOKEN: secrets["the git token"],
      GH_TOKEN: secrets["the git token"],
    })
    await agent.until(
      () => agent.frames.some((frame) => frame.type === "agentStatus" && frame.status === "idle"),
      "an idle agent",
    )
    const command = collect(sandbox.stateDir, sandbox.root)
    model.on("collect", [
      reply(tool("bash", { command, description: "collects", timeout: 50_000 })),
      text("collected"),
    ])
    agent.say({ type: "prompt", messageId: "c", content: "@@collect@@", model: "scripted/m1" })
    await agent.until(
      () => agent.frames.some((frame) => frame.type === "complete" && frame.messageId === "c"),
      "the end of the turn",
    )
    found = await Bun.file(join(sandbox.workDir, "project", "collected.bin")).text()
  }, 120_000)

  afterAll(async () => {
    runner.kill("SIGTERM")
    await runner.exited
    await agent.stop()
    await git.stop()
    await model.stop()
    await refusing.stop(true)
    await mcp.stop()
    await parallel.stop(true)
    await sandbox.remove()
  })

  test("the agent's search reaches its files, its environment, OpenCode's API and the broker", () => {
    expect(found).toContain(CANARY)
    if (isAlone) expect(found).toContain("ASKED-ALL")
    expect(found).toContain("SANDPIPER_API_TOKEN=")
    // OpenCode's list of providers, with the broker's address.
    expect(found).toMatch(/"anthropic".*"baseURL":"http:\/\/127\.0\.0\.1:\d+\/anthropic"/s)
    // The provider's refusal, which repeats the key, as the broker hands it on.
    expect(found).toContain("wrong key: Bearer [key]")
  })

  test.each(Object.keys(secrets) as Name[])("the agent's search does not find %s", (name) => {
    for (const form of encodingsOf(secrets[name])) expect(found.includes(form)).toBe(false)
  })

  test("tools of an MCP server and of Parallel work with credentials that the agent's search does not find", async () => {
    const call = async (
      id: string,
      name: string,
      input: Record<string, string>,
    ): Promise<unknown> => {
      model.on(id, [reply(tool(name, input)), text("called")])
      agent.say({ type: "prompt", messageId: id, content: `@@${id}@@`, model: "scripted/m1" })
      const update = await agent.frame(
        "message.part.tool-update",
        (frame) => frame.messageId === id && ["completed", "error"].includes(frame.status),
      )
      return update.result ?? update.error
    }
    expect(await call("mcp", "far_say", { words: "hello" })).toBe("remote heard: hello")
    expect(String(await call("web", "parallel_web_search", { objective: "birds" }))).toContain(
      "https://found.example/",
    )
    expect(research.at(-1)).toBe(secrets["the key of Parallel"])
  })

  test("git gets the token on demand, which the agent's search does not find", async () => {
    const host = new URL(git.origin).host
    const ask = `curl -sS -H "authorization: Bearer $SANDPIPER_API_TOKEN" -d '{"protocol":"http","host":"${host}"}' $(cat ${sandbox.stateDir}/session/control-url)/git-credential`
    model.on("ask", [
      reply(tool("bash", { command: ask, description: "asks as git does" })),
      text("asked"),
    ])
    agent.say({ type: "prompt", messageId: "a", content: "@@ask@@", model: "scripted/m1" })
    const update = await agent.frame(
      "message.part.tool-update",
      (frame) => frame.messageId === "a" && frame.status === "completed",
    )
    expect(String(update.result)).toContain(secrets["the git token"])
  })
})

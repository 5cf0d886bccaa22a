/** Which model catalogue OpenCode gets: the bundled subset, or its own when a configuration needs more providers. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import { agentPid } from "../kit/processes.ts"
import { startRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { untilFound } from "../kit/until-true.ts"
import type { Inbound } from "../../src/wire/frames/index.ts"

let agent: TestSessionAgent
beforeAll(() => {
  agent = startTestSessionAgent({ config: { providerKeys: { anthropic: "k" } } })
})
afterAll(() => agent.stop())

const modelsAfter = async (config: Inbound<"opencode-config">["config"]) => {
  const from = agent.frames.length
  agent.say({ type: "opencode-config", config })
  const { models } = await agent.frame("models", () => true, from)
  const { restarted } = await agent.frame("opencode-config-applied", () => true, from)
  return { restarted, providers: models.map(({ provider }) => provider).toSorted() }
}

test("a key for a bundled provider needs no restart, and a key for another provider restarts with the full catalogue", async () => {
  const runner = await startRunner(agent)
  const { models } = await agent.frame("models")
  expect(models.map(({ provider }) => provider)).toEqual(["anthropic"])
  const file = Bun.file(join(runner.sandbox.stateDir, "session/opencode/models.json"))
  expect(Object.keys(await file.json())).toContain("anthropic")
  const pid = agentPid(runner)

  const known = await modelsAfter({ providerKeys: { anthropic: "k", openrouter: "k" } })
  expect(known).toEqual({ restarted: false, providers: ["anthropic", "openrouter"] })
  expect(agentPid(runner)).toBe(pid)

  const other = await modelsAfter({ providerKeys: { anthropic: "k", cerebras: "k" } })
  expect(other).toEqual({ restarted: true, providers: ["anthropic", "cerebras"] })
  expect(await file.exists()).toBe(false)
  await runner.stop()
})

test("a provider in the project's own opencode.json has its models", async () => {
  const from = agent.frames.length
  const runner = await startRunner(
    agent,
    {},
    {
      furnish: ({ workDir }) => {
        const provider = { cerebras: { options: { apiKey: "k" } } }
        return Bun.write(join(workDir, "opencode.json"), JSON.stringify({ provider }))
      },
    },
  )
  const { models } = await agent.frame("models", () => true, from)
  expect(models.map(({ provider }) => provider).toSorted()).toEqual(["anthropic", "cerebras"])
  expect(models.every((provider) => provider.models.length > 0)).toBe(true)
  await runner.stop()
})

/** A fake OpenCode of another version; at its first other request it records whether the catalogue file exists. */
const otherVersion = `#!${process.execPath}
import { existsSync, writeFileSync } from "node:fs"
Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.argv[process.argv.indexOf("--port") + 1]),
  fetch: ({ url }) => {
    if (new URL(url).pathname === "/global/health") return Response.json({ healthy: true, version: "9.9.9" })
    writeFileSync(import.meta.dir + "/found", String(existsSync(process.env.OPENCODE_MODELS_PATH)))
    return new Response("no", { status: 500 })
  },
})
`

test("an OpenCode of another version does not get the bundled catalogue", async () => {
  const runner = await startRunner(
    agent,
    {},
    {
      furnish: async (sandbox) => {
        const program = join(sandbox.root, "opencode")
        await Bun.write(program, otherVersion)
        await chmod(program, 0o755)
        sandbox.environment["OPENCODE_BIN"] = program
      },
    },
  )
  const found = () =>
    Bun.file(join(runner.sandbox.root, "found"))
      .text()
      .catch(() => "")
  expect(await untilFound(found, "request to OpenCode")).toBe("false")
  await runner.stop()
})

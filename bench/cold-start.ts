/**
 * Time from exec to a responding gateway and to an idle agent, compared in the same run with `opencode serve` alone: once
 * with its defaults, once with the configuration, tools, plugin and model catalogue that the runner gives it.
 */
import { cp, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startScriptedModel } from "../test/kit/model.ts"
import { startOpenCode } from "../test/kit/opencode.ts"
import { createSandbox, requireBinary, scriptedConfig } from "../test/kit/runner.ts"
import { startTestSessionAgent } from "../test/kit/session-agent.ts"
import { freePort } from "../test/kit/free-port.ts"
import { ms, say, spread } from "./measure.ts"

const RUNS = 9
const binary = requireBinary()
const model = await startScriptedModel()

/** Time from exec of the binary to `/health` 200 and to the frame `agentStatus: idle`. */
const runner = async (
  keep?: (directory: string) => Promise<void>,
): Promise<{ health: number; idle: number }> => {
  const agent = startTestSessionAgent({ config: scriptedConfig(model) })
  const sandbox = await createSandbox(agent)
  const port = freePort()
  const started = performance.now()
  const child = Bun.spawn([binary, "run"], {
    env: { ...sandbox.environment, GATEWAY_PORT: String(port), LOG_LEVEL: "error" },
    stdio: ["ignore", "ignore", "ignore"],
  })
  const health = await answered(`http://127.0.0.1:${port}/health`, {}, started)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  const idle = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  await keep?.(join(sandbox.stateDir, "session/opencode"))
  await sandbox.remove()
  await agent.stop()
  return { health, idle }
}

const answered = async (url: string, headers: Record<string, string>, started: number) => {
  for (;;) {
    try {
      const response = await fetch(url, { headers, signal: AbortSignal.timeout(1000) })
      if (response.ok) return performance.now() - started
    } catch {}
    await Bun.sleep(1)
  }
}

/** OpenCode alone: time until it is healthy, and until it returns its configuration. */
const alone = async (given?: string): Promise<{ healthy: number; configured: number }> => {
  const started = performance.now()
  const opencode = await startOpenCode({
    config: given === undefined ? model.config : {},
    env:
      given === undefined
        ? {}
        : {
            OPENCODE_CONFIG_DIR: join(given, "config"),
            OPENCODE_MODELS_PATH: join(given, "models.json"),
          },
    ownModels: true,
    pollMs: 25,
  })
  const healthy = performance.now() - started
  const headers = { authorization: `Basic ${btoa(`opencode:${opencode.password}`)}` }
  await answered(`${opencode.url}/config`, headers, started)
  const configured = await answered(`${opencode.url}/config/providers`, headers, started)
  await opencode.stop()
  return { healthy, configured }
}

const kept = await mkdtemp(join(tmpdir(), "cold-start-"))
const ours: { health: number; idle: number }[] = []
const theirs: { healthy: number; configured: number }[] = []
const furnished: { healthy: number; configured: number }[] = []
await runner(async (directory) => {
  for (const name of ["config", "models.json"])
    await cp(join(directory, name), join(kept, name), { recursive: true })
})
await alone()
for (let run = 0; run < RUNS; run += 1) {
  theirs.push(await alone())
  ours.push(await runner())
  furnished.push(await alone(kept))
}
await model.stop()
await rm(kept, { recursive: true })

const idle = spread(ours.map((run) => run.idle))
const bare = spread(theirs.map((run) => run.configured))
const configured = spread(furnished.map((run) => run.configured))
say("sandpiper: exec to /health 200", ms(spread(ours.map((run) => run.health))))
say("sandpiper: exec to agentStatus idle", ms(idle))
say("opencode serve alone: exec to healthy", ms(spread(theirs.map((run) => run.healthy))))
say("opencode serve alone: exec to healthy and configured", ms(bare))
say("opencode serve with the runner's tools, plugin and models: the same", ms(configured))
const shareOver = (other: number) => `${((100 * (idle.median - other)) / idle.median).toFixed(1)} %`
say("the daemon's share of the time to idle, compared with OpenCode alone", shareOver(bare.median))
say(
  "the same, compared with OpenCode with the runner's tools and models",
  shareOver(configured.median),
)

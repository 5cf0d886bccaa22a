/**
 * Time from start.sh to /ready, compared with OpenCode alone and with the same steps in sequence with fixed sleeps: 1 s
 * for the screen, 2 s for the terminal, a health check every second, 3 s before the link.
 */
import { boot } from "../test/kit/boot.ts"
import { freePort } from "../test/kit/free-port.ts"
import { startScriptedModel } from "../test/kit/model.ts"
import { startOpenCode } from "../test/kit/opencode.ts"
import { createSandbox, scriptedConfig } from "../test/kit/runner.ts"
import { startTestSessionAgent } from "../test/kit/session-agent.ts"
import { ms, say, spread } from "./measure.ts"

const RUNS = 9
const SLEEPS_MS = 1000 + 2000 + 3000
const model = await startScriptedModel()

const untilOk = async (ask: () => Promise<boolean>): Promise<void> => {
  while (!(await ask().catch(() => false))) await Bun.sleep(25)
}

/** `again` is the second boot of the same sandbox, as after a restart. */
const ours = async (services: string): Promise<{ first: number; again: number }> => {
  const agent = startTestSessionAgent({ config: scriptedConfig(model) })
  const sandbox = await createSandbox(agent)
  const ports = ["GATEWAY", "VNC", "VNC_RAW", "VSCODE", "TTYD"].map(portOf)
  const env = {
    ...Object.fromEntries(ports),
    LOG_LEVEL: "info",
    SANDPIPER_SERVICES: services,
    DISPLAY: `:${500 + Math.floor(Math.random() * 400)}`,
  }
  const once = async () => {
    const from = agent.frames.length
    const started = performance.now()
    const booted = boot(sandbox, { as: "plain", env })
    // Poll /ready only after the agent is idle: polling earlier would take processor time from the start-up.
    await agent.frame("agentStatus", ({ status }) => status === "idle", from)
    await untilOk(async () => (await booted.ready()).ready)
    const took = performance.now() - started
    await booted.stop()
    return took
  }
  const times = { first: await once(), again: await once() }
  await agent.stop()
  await sandbox.remove()
  return times
}

const portOf = (name: string) => [`${name}_PORT`, String(freePort())] as const

/** OpenCode alone until it is healthy and returns its configuration, which /ready requires too. */
const alone = async (pollMs: number): Promise<number> => {
  const started = performance.now()
  const opencode = await startOpenCode({ config: model.config, ownModels: true, pollMs })
  const headers = { authorization: `Basic ${btoa(`opencode:${opencode.password}`)}` }
  const responds = (path: string) => async () =>
    (await fetch(`${opencode.url}${path}`, { headers })).ok
  await untilOk(responds("/config"))
  await untilOk(responds("/config/providers"))
  const took = performance.now() - started
  await opencode.stop()
  return took
}

const inSequence = async (): Promise<number> => {
  const started = performance.now()
  await Bun.sleep(SLEEPS_MS)
  await alone(1000)
  return performance.now() - started
}

const figures = {
  first: [] as number[],
  again: [] as number[],
  alone: [] as number[],
  row: [] as number[],
}
await alone(25)
await ours("none")
for (let run = 0; run < RUNS; run += 1) {
  figures.alone.push(await alone(25))
  const { first, again } = await ours("none")
  figures.first.push(first)
  figures.again.push(again)
  figures.row.push(await inSequence())
}
const first = spread(figures.first)
const base = spread(figures.alone)
say("start.sh to /ready, first boot", ms(first))
say("start.sh to /ready, second boot of the same sandbox", ms(spread(figures.again)))
say("opencode serve alone: exec to healthy and configured", ms(base))
say("the same steps in sequence, with fixed sleeps", ms(spread(figures.row)))
say(
  "start.sh compared with OpenCode alone",
  `${(100 * (first.median / base.median - 1)).toFixed(1)} % more`,
)
if (Bun.which("Xvfb") && Bun.which("x11vnc") && Bun.which("websockify")) {
  const withScreen = await ours("vnc")
  say("start.sh to /ready, with the screen", `${withScreen.first.toFixed(0)} ms (one run)`)
} else {
  say(
    "start.sh to /ready, with the screen",
    "not measured: Xvfb, x11vnc or websockify is not installed",
  )
}
await model.stop()

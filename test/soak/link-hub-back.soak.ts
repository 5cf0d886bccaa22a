/** The compiled runner after a restart of its hub: how soon it is back, with the hub on Bun and as a Durable Object. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test"
import { join } from "node:path"
import { connectClient } from "../hub/kit/client.ts"
import { freePort } from "../kit/free-port.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { hubAnswers, isConnected, startBinaryRunner } from "../kit/binary-runner.ts"
import { startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(180_000)
const SESSION = "s1"
/** Long enough for waits that double from 250 ms to reach 8 s. */
const AWAY_MS = 10_000

interface RestartableHub {
  readonly url: string
  readonly clientToken: string
  readonly restart: (awayMs: number) => Promise<void>
  readonly stop: () => Promise<void>
}

const onBun = async ({ root }: Sandbox, config: object): Promise<RestartableHub> => {
  const port = freePort()
  const program = join(import.meta.dir, "../hub/kit/hub-program.ts")
  const args = [join(root, "hub"), String(port), SESSION, JSON.stringify(config)]
  const launch = () =>
    Bun.spawn([process.execPath, program, ...args], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "inherit",
    })
  let child = launch()
  const stop = async () => {
    child.kill("SIGKILL")
    await child.exited
  }
  return {
    url: `http://127.0.0.1:${port}`,
    clientToken: CLIENT_TOKEN,
    restart: async (awayMs) => {
      await stop()
      // Sleep: the hub is away on purpose.
      await Bun.sleep(awayMs)
      child = launch()
    },
    stop,
  }
}

const hubIsAway = ({ url }: RestartableHub): Promise<void> =>
  untilTrue(async () => {
    const response = await fetch(url).catch(() => undefined)
    await response?.body?.cancel()
    return response === undefined
  }, "a hub that is away")

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

test.each([
  ["on Bun that was killed", onBun],
  ["as a Durable Object", async () => startWorkerd(await bundleWorker())],
] as const)(
  "a runner is back and answers prompts a moment after a hub %s and was away for 10 s",
  async (_name, start) => {
    const model = await startScriptedModel()
    cleanups.push(model.stop)
    model.on("first", [text("Before.")])
    model.on("second", [text("After.")])
    const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
    cleanups.push(sandbox.remove)
    const hub = await start(sandbox, scriptedConfig(model))
    cleanups.push(hub.stop)
    await hubAnswers(hub)
    const created = await fetch(`${hub.url}/sessions/${SESSION}`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${hub.clientToken}` },
      body: JSON.stringify({ runnerToken: RUNNER_TOKEN, config: scriptedConfig(model) }),
    })
    expect(created.ok).toBeTrue()
    const runner = startBinaryRunner(sandbox, {
      DO_WS_URL: `${hub.url.replace("http", "ws")}/sessions/${SESSION}/ws`,
      SESSION_ID: SESSION,
    })
    cleanups.push(runner.stop)
    const at = { ...hub, session: SESSION }
    await isConnected(runner, 1, at)
    const answer = async (content: string) => {
      const client = await connectClient(hub.url, hub.clientToken, { session: SESSION })
      const clientRequestId = crypto.randomUUID()
      const { messageId } = await client.ask({ type: "prompt", content, clientRequestId })
      await client.until(() => client.answerTo(String(messageId)) !== "", "answer")
      client.close()
      return client.answerTo(String(messageId))
    }
    expect(await answer("@@first@@")).toBe("Before.")

    const restarted = hub.restart(AWAY_MS)
    await hubIsAway(hub)
    await hubAnswers(hub)
    const from = performance.now()
    await isConnected(runner, 2, at)
    const backMs = performance.now() - from
    await restarted
    process.stdout.write(`the runner is back ${Math.round(backMs)} ms after its hub\n`)
    // 0 to 1 s on an idle machine. The waits are the rule, and do not depend on the load of the machine.
    expect(backMs).toBeLessThan(10_000)
    expect(runner.waits().length).toBeGreaterThan(8)
    expect(Math.max(...runner.waits())).toBeLessThanOrEqual(1000)
    expect(await answer("@@second@@")).toBe("After.")
  },
)

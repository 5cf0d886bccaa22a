/** `processes/run` of `true`: through our gateway, at sandbox-agent's own server, and as a bare spawn in this process. */
import { startV1Stage } from "../test/runner/sandbox/v1/kit.ts"
import { makeControlToken } from "../test/runner/gateway/kit.ts"
import { percentile, say } from "./measure.ts"
import { startSandboxAgent } from "./sink/sandbox-agent.ts"
import { join } from "node:path"

const RUNS = 1000
const WARM_UP = 100
const body = JSON.stringify({ command: "true" })

const stage = await startV1Stage({}, [join(import.meta.dir, "../dist/sandpiper")])
const peer = await startSandboxAgent()

const run = async (url: string, token: string): Promise<void> => {
  const response = await fetch(`${url}/v1/processes/run`, {
    method: "POST",
    body,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  })
  const { exitCode } = (await response.json()) as { exitCode: number }
  if (exitCode !== 0) throw new Error(`exit code ${exitCode}`)
}
const token = makeControlToken()
const ways: Readonly<Record<string, () => Promise<unknown>>> = {
  "a bare spawn": () => Bun.spawn(["true"], { stdout: "ignore", stderr: "ignore" }).exited,
  "sandbox-agent's server": () => run(peer.url, peer.token),
  "our gateway and server": () => run(stage.gateway.url, token),
}

const times = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]))
for (let round = 0; round < RUNS + WARM_UP; round += 1) {
  for (const [name, way] of Object.entries(ways)) {
    const from = performance.now()
    await way()
    if (round >= WARM_UP) times.get(name)?.push(performance.now() - from)
  }
}
for (const [name, values] of times) {
  say(
    `run true, ${name}`,
    `p50 ${percentile(values, 0.5).toFixed(2)} ms, p99 ${percentile(values, 0.99).toFixed(2)} ms`,
  )
}
await stage.stop()
await peer.stop()
process.exit(0)

/**
 * `processes/run` of `true`: through our gateway, at sandbox-agent's own server, and as a bare spawn in this process. Both
 * servers are processes of their own. The ways take turns, so that the ratio of one round is that of one moment.
 */
import { join } from "node:path"
import { z } from "zod"
import { makeControlToken } from "../test/runner/gateway/kit.ts"
import { percentile, say } from "./measure.ts"
import { startSandboxAgent } from "./sink/sandbox-agent.ts"

const RUNS = 1000
const WARM_UP = 100
const PEER = "sandbox-agent's server"
const body = JSON.stringify({ command: "true" })

const stage = Bun.spawn(
  [process.execPath, join(import.meta.dir, "../test/runner/sandbox/v1/stage-process.ts")],
  { stdin: "pipe", stdout: "pipe" },
)
const { value: line } = await stage.stdout.getReader().read()
const { url } = z.object({ url: z.string() }).parse(JSON.parse(new TextDecoder().decode(line)))
const peer = await startSandboxAgent()

const run = async (address: string, token: string): Promise<void> => {
  const response = await fetch(`${address}/v1/processes/run`, {
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
  [PEER]: () => run(peer.url, peer.token),
  "our gateway and server": () => run(url, token),
}

const times = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]))
for (let round = 0; round < RUNS + WARM_UP; round += 1) {
  for (const [name, way] of Object.entries(ways)) {
    const from = performance.now()
    await way()
    if (round >= WARM_UP) times.get(name)?.push(performance.now() - from)
  }
}
const peerTimes = times.get(PEER) ?? []
for (const [name, values] of times) {
  const ratios = values.map((value, round) => value / (peerTimes[round] ?? Number.NaN))
  say(
    `run true, ${name}`,
    `p50 ${percentile(values, 0.5).toFixed(2)} ms, p99 ${percentile(values, 0.99).toFixed(2)} ms, ratio to the peer ${percentile(ratios, 0.5).toFixed(2)}`,
  )
}
await stage.stdin.end()
await stage.exited
await peer.stop()
process.exit(0)

/** What the key broker adds to a model call: the time to the whole reply of a call and to a stream's first event, beside direct. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../src/lib/clock.ts"
import { createLog } from "../src/lib/log.ts"
import { createBrokerSupervisor } from "../src/runner/broker/broker-supervisor.ts"
import { percentile, say } from "./measure.ts"

const CALLS = 2000
const WARM_UP = 200
/** About the size of a prompt with its history. */
const body = JSON.stringify({
  model: "m",
  messages: [{ role: "user", content: "x".repeat(20_000) }],
})
const chunk = `data: ${JSON.stringify({ choices: [{ delta: { content: "word " } }] })}\n\n`

/** The provider is a process of its own, so that neither way shares a thread with it. */
const provider = Bun.spawn([process.execPath, join(import.meta.dir, "sink/model-provider.ts")], {
  stdout: "pipe",
  env: { CHUNK: chunk },
})
const firstLine = await provider.stdout.getReader().read()
const providerUrl = new TextDecoder().decode(firstLine.value).trim()

const stateDir = await mkdtemp(join(tmpdir(), "bench-broker-"))
const broker = createBrokerSupervisor({
  self: [join(import.meta.dir, "../dist/sandpiper")],
  stateDir,
  bootId: "",
  version: "bench",
  secret: undefined,
  memory: { read: () => undefined, write: () => {} },
  environment: { PATH: process.env["PATH"] },
  leaseSeconds: 600,
  clock: systemClock,
  log: createLog({ level: "warn", format: "json", secrets: [], write: () => {}, now: Date.now }),
})
broker.start()
await broker.setUpstreams({ p: { baseUrl: providerUrl, auth: "bearer", key: "k" } })

const headers = { authorization: `Bearer ${broker.address.token}` }
const ways = { direct: providerUrl, broker: `${broker.address.origin}/p` }
type Way = keyof typeof ways

const whole = async (url: string): Promise<number> => {
  const from = performance.now()
  await (await fetch(`${url}/chat/completions`, { method: "POST", body, headers })).text()
  return performance.now() - from
}
const firstEvent = async (url: string): Promise<number> => {
  const from = performance.now()
  const response = await fetch(`${url}/responses`, { method: "POST", body, headers })
  const reader = response.body?.getReader()
  await reader?.read()
  const taken = performance.now() - from
  while (!(await reader?.read())?.done);
  return taken
}

for (const [name, measure] of [
  ["whole reply", whole],
  ["first event of a stream", firstEvent],
] as const) {
  const times: Record<Way, number[]> = { direct: [], broker: [] }
  // Alternating, so that a disturbance of the machine hits both.
  for (let index = 0; index < CALLS + WARM_UP; index += 1)
    for (const way of ["direct", "broker"] as const) {
      const taken = await measure(ways[way])
      if (index >= WARM_UP) times[way].push(taken)
    }
  for (const share of [0.5, 0.99]) {
    const [direct, through] = [percentile(times.direct, share), percentile(times.broker, share)]
    const label = `${name}, p${share * 100}`
    say(`${label}, direct`, `${direct.toFixed(3)} ms`)
    say(`${label}, through the broker`, `${through.toFixed(3)} ms`)
    say(
      `${label}, added`,
      `${(through - direct).toFixed(3)} ms (${(through / direct).toFixed(2)}x)`,
    )
  }
}

await broker.stop()
provider.kill()
await rm(stateDir, { recursive: true, force: true })

/**
 * The long soak: four channels with all kinds of turns, while processes are killed and the link is cut or frozen. After
 * each turn the client's view is compared with the model's words. `npm run soak -- --minutes 20 [--seed N]`
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { connectClient, type TestClient } from "../../hub/kit/client.ts"
import { freePort } from "../../kit/free-port.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../../hub/kit/hub.ts"
import { makeRepository } from "../../kit/conversation.ts"
import { startScriptedModel } from "../../kit/model.ts"
import { killOpenCode } from "../../kit/opencode-processes.ts"
import { createSandbox, scriptedConfig, spawnRunner } from "../../kit/runner.ts"
import { startTcpProxy } from "../../kit/tcp-proxy.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { checkTurn } from "./check-turn.ts"
import { kindNames, planTurn } from "./turns.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "20" }, seed: { type: "string" } },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const endAt = Date.now() + Number(values.minutes) * 60_000
const print = (text: string) => void process.stdout.write(`${text}\n`)
print(`seed ${seed}, ${values.minutes} minutes`)

/** The same seed gives the same choices; what happens between them depends on timing. */
const randomFrom = (start: number) => {
  let state = start
  return (count: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * count)
  }
}

const model = await startScriptedModel()
const hubPort = freePort()
const proxy = await startTcpProxy(hubPort)
const url = `http://127.0.0.1:${hubPort}`
const sandbox = await createSandbox({
  url: `ws://127.0.0.1:${proxy.port}/sessions/s1/ws`,
  token: RUNNER_TOKEN,
})
await makeRepository(sandbox)
const hubFolder = join(sandbox.root, "hub")

const startHub = async () => {
  const program = join(import.meta.dir, "../../hub/kit/hub-program.ts")
  const config = JSON.stringify(scriptedConfig(model))
  const child = Bun.spawn([process.execPath, program, hubFolder, String(hubPort), "s1", config], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  })
  await child.stdout.getReader().read()
  return child
}
let hub = await startHub()
let runner = spawnRunner(sandbox)
let client: TestClient = await connectClient(url, CLIENT_TOKEN)
let isEnding = false
const gapsBefore: number[] = []

/** Reconnects with its cursor, as a page does. */
const keepClient = async (): Promise<void> => {
  while (!isEnding) {
    if (!client.isOpen()) {
      try {
        const next = await connectClient(url, CLIENT_TOKEN, { from: client })
        gapsBefore.push(client.gaps())
        client = next
      } catch {
        // The hub is being started again.
      }
    }
    // Sleep: a page dials again after a short time.
    await Bun.sleep(100)
  }
}

const counts = new Map<string, number>()
const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1)
const mismatches: string[] = []

/** Sends the request again until it has a reply: its id makes the repetition harmless. */
const ask = async (message: Record<string, unknown>): Promise<Record<string, unknown>> => {
  const clientRequestId = crypto.randomUUID()
  for (;;) {
    if (client.isOpen()) {
      const reply = await Promise.race([
        client.ask({ ...message, clientRequestId }),
        // Sleep: a request without a reply after this time is sent again.
        Bun.sleep(3000).then(() => undefined),
      ])
      if (reply) return reply
    }
    // Sleep: the hub is not asked without a pause.
    await Bun.sleep(200)
  }
}

const TURN_LIMIT_MS = 240_000

const runTurn = async (channelId: string, kind: string, name: string): Promise<void> => {
  const turn = planTurn(model, kind, name)
  const { messageId } = await ask({
    type: "prompt",
    content: `@@${name}@@`,
    channelType: "web",
    channelId,
  })
  const id = String(messageId)
  const isOver = () => {
    const own = client.messages().filter((one) => one.promptId === id && one.role !== "user")
    const isQueued = client.queue().some((one) => one.id === id)
    // The last event of a turn may follow the change of the queue.
    const isEnded = own.length > 0 && own.every(({ status }) => status !== "streaming")
    return client.isOpen() && !isQueued && isEnded
  }
  // A turn that does not end is a mismatch, and the soak goes on.
  await untilTrue(isOver, `end of ${name}`, TURN_LIMIT_MS).catch((error) => print(String(error)))
  const verdict = checkTurn(turn, id, client.messages())
  count("is" in verdict ? `${kind}: ${verdict.is}` : `${kind}: MISMATCH`)
  if ("mismatch" in verdict) {
    mismatches.push(`${name} (${kind}): ${verdict.mismatch}`)
    print(`MISMATCH ${mismatches.at(-1)}`)
  }
}

const runChannel = async (channelId: string, number: number): Promise<void> => {
  const random = randomFrom(seed + number)
  for (let turn = 1; Date.now() < endAt; turn += 1) {
    const kind = kindNames[random(kindNames.length)] ?? "short"
    await runTurn(channelId, kind, `${channelId}.${turn}`)
  }
}

const faults: Readonly<Record<string, () => Promise<unknown>>> = {
  "link cut": async () => proxy.reset(),
  "link frozen": async () => {
    proxy.freeze()
    // Sleep: the link is frozen on purpose.
    await Bun.sleep(4000)
    proxy.reset()
  },
  "hub killed": async () => {
    hub.kill("SIGKILL")
    await hub.exited
    hub = await startHub()
  },
  "runner killed": async () => {
    runner.kill("SIGKILL")
    await runner.exited
    runner = spawnRunner(sandbox)
  },
  "OpenCode killed": () => killOpenCode(sandbox),
}

const makeFaults = async (): Promise<void> => {
  const random = randomFrom(seed)
  const names = Object.keys(faults)
  // Sleep: the first turns run without a fault.
  await Bun.sleep(15_000)
  while (Date.now() < endAt) {
    const name = names[random(names.length)] ?? ""
    count(`fault: ${name}`)
    await faults[name]?.()
    // Sleep: the moments of the faults are chosen at random.
    await Bun.sleep(6000 + random(12_000))
  }
}

const rssOf = (pid: number): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8")
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
  } catch {
    return 0
  }
}
const filesIn = (folder: string) =>
  existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : []
const sizeOf = (folder: string): number =>
  filesIn(folder).reduce((sum, entry) => {
    if (!entry.isFile()) return sum
    try {
      return sum + statSync(join(entry.parentPath, entry.name)).size
    } catch {
      return sum
    }
  }, 0)
const mb = (bytes: number) => (bytes / 1_048_576).toFixed(1)

const measure = async (): Promise<void> => {
  const started = Date.now()
  print("seconds  turns  hub RSS MB  runner RSS MB  hub files MB  runner files MB")
  while (!isEnding) {
    const turns = [...counts].reduce(
      (sum, [what, number]) => (what.startsWith("fault") ? sum : sum + number),
      0,
    )
    const row = [
      Math.round((Date.now() - started) / 1000),
      turns,
      rssOf(hub.pid),
      rssOf(runner.pid),
      mb(sizeOf(hubFolder)),
      mb(sizeOf(sandbox.stateDir)),
    ]
    print(row.map((value) => String(value).padStart(7)).join("  "))
    // Sleep: one row of measurements every half minute.
    await Bun.sleep(30_000)
  }
}

void keepClient()
void measure()
await Promise.all([
  ...["a", "b", "c", "d"].map((channel, at) => runChannel(channel, at + 1)),
  makeFaults(),
])
// A client that starts now must read what the live one has put together.
const fresh = await connectClient(url, CLIENT_TOKEN)
// The live client may still get what the fresh one has read. A difference that stays is found below.
await untilTrue(
  () => client.isOpen() && client.cursor() >= fresh.cursor(),
  "the live client at the revision of the fresh one",
).catch((error) => mismatches.push(String(error)))
const shownBy = (of: TestClient) =>
  new Map(of.messages().map((one) => [one.id, JSON.stringify([one.status, one.parts])]))
const live = shownBy(client)
for (const [id, text] of shownBy(fresh))
  if (live.get(id) !== text) mismatches.push(`message ${id}: live and stored views differ`)
const gaps = [...gapsBefore, client.gaps()].reduce((sum, one) => sum + one, 0)
if (gaps > 0) mismatches.push(`${gaps} deltas did not fit the client's text`)

isEnding = true
for (const [what, number] of [...counts].toSorted(([a], [b]) => a.localeCompare(b)))
  print(`${String(number).padStart(6)}  ${what}`)
for (const mismatch of mismatches) print(`MISMATCH ${mismatch}`)
print(`${mismatches.length} mismatches`)
client.close()
fresh.close()
runner.kill("SIGTERM")
const hasEnded = () => runner.exitCode !== null || runner.signalCode !== null
await untilTrue(hasEnded, "end of the runner after SIGTERM", 10_000).catch((error) =>
  print(String(error)),
)
runner.kill("SIGKILL")
await runner.exited
await killOpenCode(sandbox)
hub.kill("SIGKILL")
await proxy.stop()
await model.stop()
await sandbox.remove()
process.exit(mismatches.length === 0 ? 0 : 1)

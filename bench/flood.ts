/**
 * What other owners wait for while a runner with a valid token sends thousands of frames without waiting: `/health` and a prompt of
 * another owner, at the hub of the compiled binary (`serve`) and at the Durable Objects on workerd.
 */
import { existsSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { loadavg, tmpdir } from "node:os"
import { join } from "node:path"
import { CLIENT_TOKEN } from "../test/hub/kit/hub.ts"
import { bundleWorker } from "../test/hub/kit/workerd.ts"
import { requireBinary } from "../test/kit/runner.ts"
import { percentile, say } from "./measure.ts"
import { startPlainWorkerd } from "./sink/workerd.ts"

const RUNNER_TOKEN = "runner-token-of-the-flood-bench"
const PAUSE_MS = 5
const floods = [
  ["requests", 12_300],
  ["statuses", 10_000],
] as const

interface Host {
  readonly name: string
  readonly url: string
  readonly token: string
  readonly stop: () => Promise<void>
}

const startServe = async (root: string): Promise<Host> => {
  const state = join(root, "serve")
  const child = Bun.spawn([requireBinary(), "serve", "--provider", "noop", "--state-dir", state], {
    cwd: root,
    env: { PATH: process.env["PATH"] ?? "", HOME: root, LOG_LEVEL: "warn" },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  })
  const file = join(state, "hub/address.json")
  while (!existsSync(file)) await Bun.sleep(20)
  const { url, token } = JSON.parse(readFileSync(file, "utf8")) as { url: string; token: string }
  return {
    name: "serve",
    url,
    token,
    stop: async () => {
      child.kill("SIGTERM")
      await child.exited
    },
  }
}

const startWorkerd = async (root: string): Promise<Host> => {
  const workerd = await startPlainWorkerd(await bundleWorker(), root)
  return { name: "workerd", url: workerd.url, token: CLIENT_TOKEN, stop: workerd.stop }
}

const measure = async ({ name, url, token }: Host, kind: string, count: number): Promise<void> => {
  const headers = { authorization: `Bearer ${token}` }
  const [flooded, other] = [`flooded-${kind}`, `other-${kind}`]
  const put = (session: string, fields: object) =>
    fetch(`${url}/sessions/${session}`, { method: "PUT", headers, body: JSON.stringify(fields) })
  await put(flooded, { owner: "user:mallory", runnerToken: RUNNER_TOKEN })
  await put(other, { owner: "user:alice" })
  const asks = {
    "/health": () => fetch(`${url}/health`),
    "a prompt": async () => {
      const body = JSON.stringify({
        content: "hello",
        channelId: crypto.randomUUID(),
        channelType: "web",
      })
      const answer = await fetch(`${url}/sessions/${other}/prompt`, {
        method: "POST",
        headers,
        body,
      })
      const { messageId } = (await answer.json()) as { messageId: string }
      return fetch(`${url}/sessions/${other}/withdraw`, {
        method: "POST",
        headers,
        body: JSON.stringify({ id: messageId }),
      })
    },
  }
  for (const ask of Object.values(asks)) await (await ask()).arrayBuffer()
  const flooder = Bun.spawn(
    [
      process.execPath,
      join(import.meta.dir, "sink/flooder.ts"),
      url,
      flooded,
      RUNNER_TOKEN,
      String(count),
      kind,
    ],
    { stdin: "ignore", stdout: "pipe", stderr: "inherit" },
  )
  let printed = ""
  const over = (async () => {
    for await (const text of flooder.stdout.pipeThrough(new TextDecoderStream())) printed += text
  })()
  while (!printed.includes("\n") && flooder.exitCode === null) await Bun.sleep(1)
  const isOver = () => printed.trim().split("\n").length > 1 || flooder.exitCode !== null
  const times = await Promise.all(
    Object.entries(asks).map(async ([what, ask]) => {
      const waits: number[] = []
      while (!isOver()) {
        const from = performance.now()
        await (await ask()).arrayBuffer()
        waits.push(performance.now() - from)
        await Bun.sleep(PAUSE_MS)
      }
      return [what, waits] as const
    }),
  )
  await flooder.exited
  await over
  for (const [what, waits] of times)
    say(
      `${name}, ${count.toLocaleString("en")} ${kind} in ${printed.trim().split("\n")[1] ?? "?"} s: ${what}`,
      `p50 ${percentile(waits, 0.5).toFixed(1)}, p99 ${percentile(waits, 0.99).toFixed(1)}, most ${Math.max(...waits).toFixed(1)} ms (${waits.length} calls)`,
    )
}

const root = await mkdtemp(join(tmpdir(), "bench-flood-"))
say(
  "load of the machine before",
  loadavg()
    .map((one) => one.toFixed(1))
    .join(" "),
)
for (const start of [startServe, startWorkerd]) {
  const host = await start(root)
  try {
    for (const [kind, count] of floods) await measure(host, kind, count)
  } finally {
    await host.stop()
  }
}
say(
  "load of the machine after",
  loadavg()
    .map((one) => one.toFixed(1))
    .join(" "),
)
await rm(root, { recursive: true, force: true })

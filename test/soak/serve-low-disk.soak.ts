/**
 * Hub and fleet with sandboxes on a disk that gets full, which is not the sandboxes' doing: none runs any more before the last byte is
 * taken, nothing is lost, and all go on when there is room. With the real OpenCode and the scripted model.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { requireRoot } from "../kit/boot.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, postToServe, startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(180_000)
const MIB = 1024 * 1024
let model: ScriptedModel
let place: Sandbox
let disk: string
let stack: ServeStack
let store: FleetStore
const clients: TestClient[] = []

beforeAll(async () => {
  requireRoot()
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  disk = join(place.root, "disk")
  mkdirSync(disk)
  expect(Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", disk]).exitCode).toBe(0)
  store = openSqliteStore(join(place.root, "fleet.db"))
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root: join(disk, "fleet"),
      self: runnerFromSource,
      clock: systemClock,
    }),
    store,
    diskLimit: { bytes: Infinity, inodes: Infinity },
  })
})
afterAll(async () => {
  rmSync(join(disk, "filler"), { force: true })
  for (const client of clients) client.close()
  try {
    await endSandboxes(stack, store)
  } finally {
    await stack.stop()
    await model.stop()
    Bun.spawnSync(["umount", "-l", disk])
    await place.remove()
  }
})

const freeMib = () => {
  const { bavail, bsize } = statfsSync(disk)
  return (bavail * bsize) / MIB
}
const leave = (mib: number) => {
  const pieces = Math.floor(freeMib() - mib)
  writeFileSync(join(disk, "filler"), Buffer.alloc(pieces * MIB))
}
const prompt = async (thread: string, message: string) => {
  const { sessionId } = await postToServe(stack, `/api/threads/${thread}/prompt`, {
    message,
    messageId: `of-${thread}`,
  })
  const client = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: String(sessionId) })
  clients.push(client)
  const texts = () => client.messages().flatMap(({ parts }) => parts.map((part) => part.text ?? ""))
  return {
    id: String(sessionId),
    answer: () => client.answerTo(`of-${thread}`),
    untilText: (part: string) =>
      client.until(() => texts().some((one) => one.includes(part)), part, 100_000),
  }
}
const phaseOf = async (id: string) => (await store.find(id))?.life.phase

test("sandboxes stand still and none starts while the disk has no room, the hub answers, and afterwards every turn ends as if nothing had been", async () => {
  const wait =
    "touch begun; n=0; until [ -e go ]; do n=$((n+1)); echo $n > count; sleep 0.05; done; echo went-on"
  model.on("work", [tool("bash", { command: wait, description: "wait" }), text("Done.")])
  const one = await prompt("T1", "@@work@@")
  const work = (file: string) =>
    join(disk, "fleet/files", encodeURIComponent(one.id), "workspace", file)
  await untilTrue(() => existsSync(work("count")), "the begin of the command")
  leave(10)
  await untilTrue(async () => (await phaseOf(one.id)) === "paused", "the pause of the sandbox")
  await one.untilText("The disk of the machine that runs the sandboxes is nearly full")
  const count = readFileSync(work("count"), "utf8")
  model.on("other", [text("At last.")])
  const two = await prompt("T2", "@@other@@")
  await two.untilText("Prompts wait.")
  expect(await phaseOf(two.id)).toBe("absent")
  expect((await fetch(`${stack.hub.url}/health`)).status).toBe(200)
  expect(freeMib()).toBeGreaterThan(5)
  expect(readFileSync(work("count"), "utf8")).toBe(count)
  rmSync(join(disk, "filler"))
  await untilTrue(
    () => readFileSync(work("count"), "utf8") !== count,
    "the next step of the command",
  )
  writeFileSync(work("go"), "")
  await untilTrue(() => one.answer() === "Done." && two.answer() === "At last.", "both answers")
  expect(JSON.stringify(model.requests)).toContain("went-on")
})

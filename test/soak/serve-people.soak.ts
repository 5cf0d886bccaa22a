/** A person who works in the terminal of a sandbox keeps it awake; a terminal that is only open does not. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { WebSocket } from "ws"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, postToServe, startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

/** The runner reports work every 30 s. */
const IDLE_MS = 60_000
let model: ScriptedModel
let place: Sandbox
let store: FleetStore
let stack: ServeStack

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  store = openSqliteStore(join(place.root, "fleet.db"))
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root: join(place.root, "fleet"),
      self: runnerFromSource,
      clock: systemClock,
    }),
    store,
    idleMs: IDLE_MS,
  })
})
afterAll(async () => {
  await endSandboxes(stack, store)
  await stack.stop()
  await model.stop()
  await place.remove()
})

/** Opens the terminal by its link, as a browser does, and returns its WebSocket. */
const openTerminal = async (session: string): Promise<WebSocket> => {
  const { url } = await postToServe(stack, `/sessions/${session}/links`, { to: "terminal" })
  const { origin } = new URL(String(url))
  const page = await fetch(String(url), { redirect: "manual", headers: { accept: "text/html" } })
  const headers = { cookie: page.headers.get("set-cookie")?.split(";")[0] ?? "", origin }
  const made = await fetch(`${origin}/terminal/new`, { method: "POST", headers })
  const { id } = (await made.json()) as { id: string }
  const address = `${origin.replace("http", "ws")}/terminal/ws?id=${id}`
  const socket = new WebSocket(address, ["tty"], { headers })
  await new Promise((resolve, reject) => {
    socket.on("open", resolve)
    socket.on("error", reject)
  })
  return socket
}

test("a sandbox stays awake while a person types in its terminal, and sleeps with the terminal still open", async () => {
  model.on("hello", [text("Here I am.")])
  const { sessionId } = await postToServe(stack, "/api/threads/T:1/prompt", {
    message: "@@hello@@",
  })
  const session = String(sessionId)
  const life = async () => (await store.find(session))?.life
  await untilTrue(async () => (await life())?.idleAt !== undefined, "the end of the turn")
  const wouldSleepAt = Number((await life())?.idleAt)
  const terminal = await openTerminal(session)
  // Opening the link has moved the time to sleep already.
  const typedUntil = Math.max(wouldSleepAt, Number((await life())?.idleAt)) + 25_000
  while (Date.now() < typedUntil) {
    terminal.send(Buffer.from("0true\r"))
    // Sleep: the person types every three seconds.
    await Bun.sleep(3000)
    expect(await life()).toMatchObject({ phase: "running", wanted: "running" })
  }
  await untilTrue(
    async () => (await life())?.phase === "paused",
    "the sleep",
    IDLE_MS + 30_000 + 60_000,
  )
  expect(terminal.readyState).toBe(WebSocket.OPEN)
  terminal.terminate()
}, 400_000)

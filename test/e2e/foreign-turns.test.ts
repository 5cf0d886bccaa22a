/** Turns that another client of OpenCode makes on the session of a channel, through `/opencode` as its TUI does. */
import { Database } from "bun:sqlite"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type HubConversation, startHubConversation } from "../kit/hub-conversation.ts"
import { text } from "../kit/model.ts"

const PASSWORD = "password-of-the-tui"
let c: HubConversation
beforeAll(async () => {
  c = await startHubConversation({ OPENCODE_SERVER_PASSWORD: PASSWORD })
  const status = () => (c.client.state("agent") as { status?: string } | undefined)?.status
  await c.client.until(() => status() === "idle", "OpenCode")
})
afterAll(() => c.stop())

const tui = (path: string, body: unknown) =>
  fetch(`${c.runner.gatewayUrl}/opencode${path}`, {
    method: "POST",
    headers: {
      Authorization: `Basic ${btoa(`opencode:${PASSWORD}`)}`,
      "Content-Type": "application/json",
    },
    body: JSON.stringify(body),
  })
const agentSessionOf = (channel: string): string => {
  const db = new Database(join(c.sandbox.stateDir, "session/state.db"), { readonly: true })
  const row = db
    .query<{ session: string }, [string]>("SELECT session FROM channels WHERE key = ?")
    .get(channel)
  db.close()
  return row?.session ?? ""
}
/** The conversation of one channel as a client sees it. */
const shown = (channel: string) =>
  c.client
    .messages()
    .filter((message) => message.channel === channel)
    .map(({ role, status, parts }) => ({
      role,
      status,
      text: parts.map((part) => part.text ?? "").join(""),
    }))
const typeInTui = async (channel: string, content: string) => {
  const posted = await tui(`/session/${agentSessionOf(channel)}/prompt_async`, {
    parts: [{ type: "text", text: content }],
  })
  expect(posted.ok).toBe(true)
}
const open = async (channelId: string) => {
  c.model.on(`open-${channelId}`, [text("Opened.")])
  await c.ended(await c.say(`@@open-${channelId}@@`, channelId))
}

test("a turn of OpenCode's TUI is shown in the hub, and a prompt of the hub waits for its end", async () => {
  await open("pair")
  const words = "typed ".repeat(40)
  c.model.on("in-tui", [text(words, { chunks: 40, delayMs: 60 })])
  c.model.on("in-hub", [text("After the TUI.")])
  await typeInTui("web:pair", "@@in-tui@@ please")
  await c.client.until(
    () => (shown("web:pair").at(-1)?.text ?? "").startsWith("typed "),
    "the answer of the TUI's turn in the hub",
  )
  expect(shown("web:pair").at(-1)?.status).toBe("streaming")
  const waiting = await c.say("@@in-hub@@", "pair")
  expect(await c.ended(waiting)).toBe("After the TUI.")
  // The turn of the TUI was not cut: all its words are there, before the hub's own.
  const answers = shown("web:pair").filter(({ role }) => role === "assistant")
  expect(answers.map((answer) => answer.text)).toEqual(["Opened.", words, "After the TUI."])
  expect(answers.map(({ status }) => status)).toEqual(["done", "done", "done"])
  const typed = shown("web:pair").filter(({ role }) => role === "user")
  expect(typed.map((prompt) => prompt.text)).toContain("@@in-tui@@ please")
})

test("a short turn of the TUI on an idle channel is shown once, and the next prompt sees it in the history", async () => {
  await open("short")
  c.model.on("quick-tui", [text("Quick.")])
  c.model.on("next", [text("Next.")])
  await typeInTui("web:short", "@@quick-tui@@")
  await c.client.until(
    () =>
      shown("web:short").some((message) => message.text === "Quick." && message.status === "done"),
    "the short answer in the hub",
  )
  expect(await c.ended(await c.say("@@next@@", "short"))).toBe("Next.")
  expect(shown("web:short").filter((message) => message.text === "Quick.")).toHaveLength(1)
  expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("Quick.")
})

test("a client's abort with an own prompt waiting withdraws that prompt and leaves the TUI's turn; the next abort stops it", async () => {
  await open("stop")
  c.model.on("long-tui", [text("long ".repeat(400), { chunks: 400, delayMs: 50 })])
  await typeInTui("web:stop", "@@long-tui@@")
  await c.client.until(
    () => (shown("web:stop").at(-1)?.text ?? "").startsWith("long "),
    "the TUI's turn",
  )
  const abort = () => c.client.ask({ type: "abort", channelType: "web", channelId: "stop" })
  const own = await c.say("never runs", "stop")
  const isQueued = () => c.client.queue().some(({ id }) => id === own)
  await c.client.until(isQueued, "the own prompt", 5000)
  await abort()
  await c.client.until(() => !isQueued(), "the end of the own prompt", 10_000)
  const turn = () => shown("web:stop").findLast(({ role }) => role === "assistant")
  const before = turn()?.text.length ?? 0
  await c.client.until(() => (turn()?.text.length ?? 0) > before, "more words of the TUI", 5000)
  expect(turn()?.status).toBe("streaming")
  await abort()
  await c.client.until(() => turn()?.status === "canceled", "the end of the TUI's turn", 10_000)
})

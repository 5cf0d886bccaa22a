/** Runs the curl examples of docs/clients.md as they are written there. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { CLIENT_TOKEN } from "./kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "./kit/local-hub.ts"

let setup: TestLocalHub
let lines: readonly string[]
beforeAll(async () => {
  setup = await startTestLocalHub()
  const page = await Bun.file(join(import.meta.dir, "../../docs/clients.md")).text()
  lines = page.split("\n").filter((line) => line.startsWith("curl "))
})
afterAll(() => setup.stop())

/** The event stream never ends: it is read for two seconds. */
const run = async (line: string) => {
  const silent = line.replace(/^curl -N /, "curl --max-time 2 -N ").replace(/^curl /, "curl -s ")
  const command = silent.replaceAll("/local/", "/s1/")
  const child = Bun.spawn(["sh", "-c", command], {
    env: { PATH: process.env["PATH"] ?? "", HUB: setup.hub.url, TOKEN: CLIENT_TOKEN },
    stdout: "pipe",
    stderr: "inherit",
  })
  const [out] = await Promise.all([new Response(child.stdout).text(), child.exited])
  return out
}
const find = (text: string) => lines.find((line) => line.includes(text)) ?? `no line with ${text}`

test.skipIf(Bun.which("curl") === null)(
  "the curl examples of docs/clients.md list sessions, send a prompt, read events and abort",
  async () => {
    expect(lines).toHaveLength(4)
    expect(JSON.parse(await run(find("/sessions")))).toMatchObject({ sessions: [{ id: "s1" }] })
    const promptLine = find("/prompt")
    const reply = JSON.parse(await run(promptLine)) as { messageId: string }
    expect(reply).toMatchObject({ ok: true, fresh: true })
    expect(JSON.parse(await run(promptLine))).toMatchObject({
      messageId: reply.messageId,
      fresh: false,
    })
    const events = await run(find("/events"))
    expect(events).toMatch(/^id: \d+\ndata: \{"type":"snapshot"/)
    expect(events).toContain(reply.messageId)
    expect(JSON.parse(await run(find("/abort")))).toEqual({ ok: true, stopping: 0, withdrawn: 0 })
  },
)

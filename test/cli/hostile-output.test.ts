/** What an agent has named, titled or printed cannot act on the terminal of the person who looks at it with a command. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { writeAddress } from "../../src/hub/hosts/bun/address.ts"
import { runnerFromSource } from "../kit/runner.ts"
import { startTerminal } from "../kit/terminal.ts"

const ESC = "\u001B"
/** A title, a write to the clipboard, a link, a cleared screen, an answer-back and 8-bit controls; `bait` shows that it was printed. */
const HOSTILE = [
  `${ESC}]0;title\u0007`,
  `${ESC}]52;c;cGFzdGVk\u0007`,
  `${ESC}]8;;https://evil.example/${ESC}\\bait${ESC}]8;;${ESC}\\`,
  `${ESC}[2J${ESC}[H`,
  `${ESC}[5n${ESC}[c`,
  `${ESC}P$qm${ESC}\\`,
  "\u009B2J\u009D0;t\u009C",
  "\r\u0008\u202Eevil",
].join("")

const service = {
  name: "web",
  command: HOSTILE,
  status: "running",
  listening: [3000],
  pid: 1,
  restarts: 0,
}
const entry = { name: HOSTILE, entryType: "file", size: 1, modified: "2026-01-01T00:00:00.000Z" }
const answers: Readonly<Record<string, () => Response>> = {
  "/v1/fs/entries": () => Response.json([entry]),
  "/v1/fs/file": () => new Response(HOSTILE),
  "/api/services": () => Response.json({ services: [service], exposedPort: null }),
  "/api/logs/web": () =>
    new Response(
      `data: ${JSON.stringify({ type: "output", content: `${HOSTILE}${ESC}[31mred` })}\n\n`,
      {
        headers: { "content-type": "text/event-stream" },
      },
    ),
  "/api/services/web/restart": () => Response.json({ error: HOSTILE }, { status: 409 }),
  "/sessions": () => Response.json({ sessions: [{ id: "s1", title: HOSTILE }] }),
}

let folder = ""
const sandbox = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: ({ url }) =>
    answers[new URL(url).pathname]?.() ?? new Response("not found", { status: 404 }),
})
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hostile-output-"))
  await mkdir(join(folder, "hub"))
  writeAddress(folder, { url: sandbox.url.origin, token: "t", session: "s1" })
})
afterAll(async () => {
  await sandbox.stop(true)
  await rm(folder, { recursive: true, force: true })
})

const run = async (...args: readonly string[]): Promise<string> => {
  const terminal = startTerminal([...runnerFromSource, ...args, "--state-dir", folder], {
    cwd: folder,
    cols: 400,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      SANDPIPER_URL: sandbox.url.origin,
      SANDPIPER_API_TOKEN: "t",
    },
  })
  await terminal.seen("bait")
  await terminal.exited
  return terminal.raw()
}

const COLOUR = new RegExp(`${ESC}\\[[\\d;]*m`, "g")
/** What acts on a terminal, and changes of the direction of text; line ends and tabs are left. */
const ACTION = /[\p{Cc}\u202A-\u202E]/gu
const actionsIn = (raw: string): readonly string[] =>
  raw
    .replaceAll(COLOUR, "")
    .replaceAll(/[\t\r\n]/g, "")
    .match(ACTION) ?? []

test.each([
  ["files ls"],
  ["files cat x"],
  ["services list"],
  ["services logs web"],
  ["services restart web"],
  ["sessions"],
])("%s shows what is hostile as text", async (command) => {
  const raw = await run(...command.split(" "))
  expect(actionsIn(raw)).toEqual([])
  expect(raw).toContain("␛]52;")
})

test("the output of a service keeps its colours on a terminal", async () => {
  expect(await run("services", "logs", "web")).toContain(`${ESC}[31mred${ESC}[0m`)
})

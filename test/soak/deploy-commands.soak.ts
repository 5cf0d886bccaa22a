/** The commands of docs/deploy.md for one machine, as they are written there, with the compiled binary. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { repositoryRoot, requireBinary } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

const STATE = "/var/lib/sandpiper"
const root = mkdtempSync(join(tmpdir(), "deploy-commands-"))
const state = join(root, "state")
const output = join(root, "serve.out")
let server: ReturnType<typeof Bun.spawn>

/** The first block of commands below a heading, without comments. */
const commandsOf = (heading: string): readonly string[] => {
  const page = readFileSync(join(repositoryRoot, "docs/deploy.md"), "utf8")
  const section = page.slice(page.indexOf(`\n## ${heading}\n`))
  const [, block = ""] = /```\n([\s\S]*?)```/.exec(section) ?? []
  return block
    .split("\n")
    .map((line) => line.replace(/\s+#.*$/, "").replaceAll(STATE, state))
    .filter(Boolean)
}

const lines = commandsOf("One machine")
const named = (start: string): string => {
  const found = lines.find((line) => line.includes(start))
  if (found === undefined) throw new Error(`docs/deploy.md has no command ${start}`)
  return found
}
const environment = {
  PATH: process.env["PATH"] ?? "",
  HOME: root,
  SANDPIPER_LOCAL_MODELS: "none",
}
const printed = () => readFileSync(output, "utf8")
const run = async (script: string): Promise<string> => {
  const child = Bun.spawn(["bash", "-euc", script], {
    cwd: repositoryRoot,
    env: environment,
    stderr: "pipe",
  })
  const [out, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if ((await child.exited) !== 0) throw new Error(`${script}\n${out}\n${errors}`)
  return out
}

beforeAll(async () => {
  requireBinary()
  server = Bun.spawn(["bash", "-c", `exec ${named("dist/sandpiper serve")}`], {
    cwd: repositoryRoot,
    env: environment,
    stdout: Bun.file(output),
    stderr: "ignore",
  })
  await untilTrue(async () => {
    if (server.exitCode !== null) throw new Error(`serve has ended: ${printed()}`)
    return printed().includes("Session agent:")
  }, "serve prints its address")
})
afterAll(async () => {
  await run(`${variables()}
curl -s -X POST -H "authorization: Bearer $TOKEN" "$URL/api/sandbox/$(${firstId()})/terminate?wait=1"`)
  server.kill("SIGTERM")
  await server.exited
  rmSync(root, { recursive: true, force: true, maxRetries: 5 })
}, 60_000)

/** The two lines that set TOKEN and URL, with the port that serve has printed. */
const variables = (): string => {
  const port = /Session agent: http:\/\/127\.0\.0\.1:(\d+)/.exec(printed())?.[1] ?? ""
  return [named("TOKEN=$("), named("URL=http")].join("\n").replace("PORT", port)
}
const firstId = () =>
  `dist/sandpiper fleet ls --json --state-dir ${state} | grep -o '"sessionId": *"[^"]*"' | head -1 | cut -d'"' -f4`

test("serve, a prompt, the list of sandboxes and fleet ls work as they are written", async () => {
  expect(lines.length).toBe(7)
  expect(lines[0]).toBe("npm run build")
  const sent = await run(`${variables()}\n${named("/prompt")}`)
  expect(JSON.parse(sent)).toMatchObject({ sessionId: expect.any(String) })
  const { sessionId } = JSON.parse(sent) as { readonly sessionId: string }
  await untilTrue(async () => {
    const all = await run(`${variables()}\n${named("/api/sandboxes")}`)
    return all.includes(sessionId) && /"status":\s*"running"/.test(all)
  }, "the sandbox runs")
  const table = await run(named("fleet ls"))
  expect(table).toContain(sessionId)
  expect(table).toContain("running")
}, 120_000)

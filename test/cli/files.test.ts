/** `sandpiper files` as a process in the sandbox: what it prints, its exit codes, and its patience with the gateway. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { selfCommand } from "../../src/lib/self-command.ts"
import { freePort } from "../kit/free-port.ts"
import { refusedCall } from "../kit/refused-call.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { API_TOKEN, startTestGateway } from "../runner/gateway/kit.ts"
import { startV1Stage, type V1Stage } from "../runner/sandbox/v1/kit.ts"

let stage: V1Stage
let local: string

beforeAll(async () => {
  stage = await startV1Stage()
  local = await mkdtemp(join(tmpdir(), "files-command-"))
})
afterAll(async () => {
  await stage.stop()
  await rm(local, { recursive: true, force: true })
})

const run = (
  args: readonly string[],
  url = stage.gateway.url,
  env: Readonly<Record<string, string>> = {},
) =>
  runToEnd([...selfCommand(), "files", ...args], {
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: local,
      SANDPIPER_URL: url,
      SANDPIPER_API_TOKEN: API_TOKEN,
      ...env,
    },
  })

test("a file goes up, is listed, shown, edited, moved, fetched and deleted", async () => {
  await writeFile(join(local, "source"), "one two\n")
  expect(await run(["put", join(local, "source"), "dir/a.txt"])).toMatchObject({ code: 0 })
  const listed = await run(["ls", "dir"])
  expect(listed.out).toMatch(/^file\t8\t\S+\ta\.txt\n$/)
  expect(JSON.parse((await run(["ls", "dir", "--json"])).out)).toMatchObject([{ name: "a.txt" }])
  const edited = await run(["edit", "dir/a.txt", "--old", "two", "--new", "2", "--json"])
  expect(JSON.parse(edited.out)).toMatchObject({ replacements: 1 })
  expect(await run(["mv", "dir/a.txt", "dir/b.txt"])).toMatchObject({ code: 0 })
  expect((await run(["cat", "dir/b.txt"])).out).toBe("one 2\n")
  expect(await run(["get", "dir/b.txt", join(local, "copy")])).toMatchObject({ code: 0 })
  expect(await readFile(join(local, "copy"), "utf8")).toBe("one 2\n")
  const kept = await run(["rm", "dir"])
  expect(kept).toMatchObject({ code: 1 })
  expect(kept.err).toContain("recursive=true")
  expect(await run(["rm", "dir", "--recursive"])).toMatchObject({ code: 0 })
  expect((await run(["ls"])).out).toBe("")
})

test("a wrong command line exits with 2, a failure with 1, and both say why", async () => {
  const usage = await run(["cat"])
  expect(usage).toMatchObject({ code: 2, out: "" })
  expect(usage.err).toContain("usage: sandpiper files cat PATH")
  expect(await run(["copy", "a"])).toMatchObject({ code: 2 })
  const missing = await run(["cat", "nothing"])
  expect(missing).toMatchObject({ code: 1, out: "" })
  expect(missing.err).toContain("does not exist")
})

test("save reports what was saved, and says so where a workspace is not saved", async () => {
  const refused = await run(["save"])
  expect(refused).toMatchObject({ code: 1, out: "" })
  expect(refused.err).toContain("this sandbox does not save its workspace")
  const saved = { files: 3, uploaded: 2, bytes: 10, removed: 0, leftOut: 1 }
  const gateway = startTestGateway({
    workspace: { save: async () => saved, restoreAgain: async () => 0 },
  })
  expect(await run(["save"], gateway.url)).toMatchObject({
    code: 0,
    out: "saved: 3 files, 2 sent, 1 left out\n",
  })
  expect(JSON.parse((await run(["save", "--json"], gateway.url)).out)).toEqual(saved)
  await gateway.stop()
})

test("a refused connection is tried again until the gateway listens", async () => {
  const port = freePort()
  const refused = refusedCall(local)
  const running = run(["ls", "--json"], `http://127.0.0.1:${port}`, refused.env)
  await refused.happened()
  const late = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => Response.json([]) })
  try {
    expect(await running).toMatchObject({ code: 0, out: "[]\n" })
  } finally {
    await late.stop(true)
  }
})

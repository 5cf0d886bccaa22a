/** An object storage, and a server of the agent's user, that answer what they like: the copy of the workspace fails and harms nothing. */
import { afterEach, expect, test } from "bun:test"
import { mkdir, mkdtemp, readdir, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../../../src/lib/clock.ts"
import { selfCommand } from "../../../../src/lib/self-command.ts"
import { readListing } from "../../../../src/runner/sandbox/sync/manifest-state.ts"
import { createObjectCalls } from "../../../../src/runner/sandbox/sync/object-calls.ts"
import { createSandboxFiles } from "../../../../src/runner/sandbox/sync/sandbox-files.ts"
import { createWorkspaceCopy } from "../../../../src/runner/sandbox/sync/workspace-copy.ts"
import { createV1Supervisor } from "../../../../src/runner/sandbox/v1/supervisor.ts"
import { silentLog } from "../../../kit/log.ts"
import { startStopwatch } from "../../../kit/stopwatch.ts"
import { untilEqual } from "../../../kit/until-true.ts"
import { otherUser } from "../v1/kit.ts"

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const CONTENT = "from the storage"
const SHA256 = new Bun.CryptoHasher("sha256").update(CONTENT).digest("hex")
const MEGABYTE = new TextEncoder().encode(" ".repeat(1024 * 1024))
/** Until somebody stops reading. */
const endless = (start = "") => {
  let isFirst = true
  return new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.enqueue(isFirst ? new TextEncoder().encode(start) : Uint8Array.from(MEGABYTE))
      isFirst = false
    },
  })
}

const serve = (answer: (path: string) => Response) => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => answer(new URL(url).pathname),
  })
  cleanups.push(() => server.stop(true))
  return server
}

/** A workspace whose storage answers with `answer`; `v1`: a port in place of its own server. */
const startCopy = async (answer: (path: string) => Response, v1?: number) => {
  const base = await realpath(await mkdtemp(join(tmpdir(), "hostile-storage-")))
  cleanups.push(() => rm(base, { recursive: true, force: true }))
  const root = join(base, "workspace")
  await mkdir(root)
  if (otherUser)
    await Bun.$`chown -R ${otherUser.uid}:${otherUser.gid} ${root} && chmod 755 ${base}`
  const server = createV1Supervisor({
    self: selfCommand(),
    root,
    user: otherUser,
    environment: () => ({ PATH: process.env["PATH"] ?? "" }),
    memory: { read: () => undefined, write: () => {} },
    clock: systemClock,
    log: silentLog,
  })
  cleanups.push(server.stop)
  const { url } = serve(answer)
  const at = (name: string) => new URL(name, url).href
  const copy = createWorkspaceCopy({
    urls: async ({ manifest, list, get = [], put = [], remove = [] }) => ({
      ...(manifest && { manifest: at("manifest") }),
      ...(list !== undefined && { list: at("list") }),
      get: get.map(at),
      put: put.map(at),
      remove: remove.map(at),
    }),
    objects: createObjectCalls(systemClock),
    files: createSandboxFiles(
      v1 === undefined ? server.address : async () => ({ port: v1, token: "t" }),
    ),
    now: Date.now,
    log: silentLog,
  })
  return { base, root, copy }
}

const file = (path: string, more: object = {}) => ({
  path,
  sha256: SHA256,
  bytes: CONTENT.length,
  mode: 0o777,
  ...more,
})
const manifestOf = (files: readonly object[]) => ({ version: 1, files, leftOut: [] })

test.each([
  ["that is endless", () => new Response(endless('{"version":1,"files":['))],
  ["of ten million brackets", () => new Response("[".repeat(10_000_000))],
  ["of another form", () => Response.json({ version: 1, files: { length: 3 }, leftOut: [] })],
  ["with a number too many", () => Response.json(manifestOf([file("a", { mode: 1e300 })]))],
])("a manifest %s is refused within 20 seconds", async (_what, manifest) => {
  const { copy, root } = await startCopy(manifest)
  const elapsedMs = startStopwatch()
  expect(await copy.restore().catch(() => "refused")).toBe("refused")
  expect(elapsedMs()).toBeLessThan(20_000)
  expect(await readdir(root)).toEqual([])
})

test.each([
  "../outside",
  "/etc/outside",
  "a/../../outside",
  "link/outside",
  "a\0b",
  `${"long".repeat(64)}/x`,
  ".",
  "/".repeat(9),
])("a manifest with the path %p writes nothing outside the workspace", async (path) => {
  const { copy, base, root } = await startCopy((at) =>
    at === "/manifest" ? Response.json(manifestOf([file(path)])) : new Response(CONTENT),
  )
  await Bun.$`ln -s .. ${join(root, "link")}`
  expect(await copy.restore().catch(() => "refused")).toBe("refused")
  expect(await readdir(base)).toEqual(["workspace"])
  expect(await readdir(root)).toEqual(["link"])
})

test("a file of the manifest has no rights beyond those of its owner, group and others", async () => {
  const { copy, root } = await startCopy((at) =>
    at === "/manifest"
      ? Response.json(manifestOf([file("program", { mode: 0o7777 })]))
      : new Response(CONTENT),
  )
  expect(await copy.restore()).toBe(1)
  const mode = (await Bun.file(join(root, "program")).stat()).mode
  expect(mode & 0o7000).toBe(0)
})

test.each([
  ["is another one", () => "other"],
  ["is longer than its manifest says", () => `${CONTENT}.`],
  ["does not end", () => endless(CONTENT)],
])("a file whose content in the storage %s is not written", async (_what, content) => {
  const { copy, root } = await startCopy((at) =>
    at === "/manifest" ? Response.json(manifestOf([file("a")])) : new Response(content()),
  )
  expect(await copy.restore().catch(() => "refused")).toBe("refused")
  await untilEqual(() => readdir(root), [], "an empty workspace")
})

test("eight megabytes of entries that do not end are read as a listing within a second", () => {
  const elapsedMs = startStopwatch()
  expect(readListing("<Contents>".repeat(800_000)).objects).toEqual([])
  expect(readListing(`<Contents><Key>${"files/".repeat(1_000_000)}`).objects).toEqual([])
  expect(elapsedMs()).toBeLessThan(1000)
})

test("a program in the place of the server of files cannot fill the runner with its list or a file", async () => {
  const hostile = serve((path) =>
    path === "/copy/scan" ? new Response("[".repeat(10_000_000)) : new Response(endless()),
  )
  const listing = await startCopy(() => new Response("", { status: 404 }), hostile.port)
  expect(await listing.copy.save().catch(() => "refused")).toBe("refused")

  const liar = serve((path) =>
    path === "/copy/scan"
      ? Response.json({ files: [file("a", { bytes: 1 })], leftOut: [] })
      : new Response(endless()),
  )
  const reading = await startCopy(
    (at) => new Response("", { status: at === "/manifest" ? 404 : 200 }),
    liar.port,
  )
  expect(await reading.copy.save().catch((error: Error) => error.message)).toContain("changed")
})

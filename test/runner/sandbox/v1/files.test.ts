/** `/v1/fs` beyond the SDK: ranges, edits, interrupted uploads, watching, limits, and the keys that open it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, readdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { API_TOKEN, makeToken } from "../../gateway/kit.ts"
import { untilEqual, untilTrue } from "../../../kit/until-true.ts"
import { startV1Stage, type V1Stage } from "./kit.ts"

let stage: V1Stage
beforeAll(async () => {
  stage = await startV1Stage()
})
afterAll(() => stage.stop())

const put = (path: string, body: string | Uint8Array) =>
  stage.call("PUT", `/v1/fs/file?path=${path}`, { body })
const edit = (body: unknown) => stage.call("POST", "/v1/fs/edit", { body: JSON.stringify(body) })

test("a range of a file is read, and a range outside it is refused with its size", async () => {
  await put("digits", "0123456789")
  const read = (range: string) =>
    stage.call("GET", "/v1/fs/file?path=digits", { headers: { range } })
  const middle = await read("bytes=2-4")
  expect([middle.status, middle.headers.get("content-range")]).toEqual([206, "bytes 2-4/10"])
  expect(await middle.text()).toBe("234")
  expect(await (await read("bytes=-3")).text()).toBe("789")
  const outside = await read("bytes=10-")
  expect([outside.status, outside.headers.get("content-range")]).toEqual([416, "bytes */10"])
  const head = await stage.call("HEAD", "/v1/fs/file?path=digits")
  expect(head.headers.get("content-length")).toBe("10")
})

test("an edit replaces text once or everywhere, keeps the mode, and refuses what is not one place", async () => {
  await put("script.sh", "one two one\n")
  await chmod(join(stage.root, "script.sh"), 0o751)
  const once = await edit({ path: "script.sh", oldText: "two", newText: "2" })
  expect(await once.json()).toEqual({
    path: join(stage.root, "script.sh"),
    replacements: 1,
    bytesWritten: 10,
  })
  expect((await edit({ path: "script.sh", oldText: "one", newText: "1" })).status).toBe(409)
  expect((await edit({ path: "script.sh", oldText: "none", newText: "1" })).status).toBe(409)
  await edit({ path: "script.sh", oldText: "one", newText: "1", replaceAll: true })
  expect(await readFile(join(stage.root, "script.sh"), "utf8")).toBe("1 2 1\n")
  expect((await stat(join(stage.root, "script.sh"))).mode & 0o777).toBe(0o751)
  await put("binary", new Uint8Array([0xff, 0xfe, 0]))
  expect((await edit({ path: "binary", oldText: "a", newText: "b" })).status).toBe(400)
  expect((await edit({ path: "script.sh" })).status).toBe(400)
})

test("edits at the same time are all kept", async () => {
  await put("counted", "a b c d e f\n")
  await Promise.all(
    ["a", "b", "c", "d", "e", "f"].map((letter) =>
      edit({ path: "counted", oldText: letter, newText: letter.toUpperCase() }),
    ),
  )
  expect(await readFile(join(stage.root, "counted"), "utf8")).toBe("A B C D E F\n")
})

test("an upload that is cut leaves the former file and no draft", async () => {
  await put("kept", "the former contents")
  const { hostname, port } = new URL(stage.gateway.url)
  const closed = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { data: () => {}, close: () => closed.resolve() },
  })
  socket.write(
    `PUT /v1/fs/file?path=kept HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${API_TOKEN}\r\nContent-Length: 1000000\r\n\r\nhalf of it`,
  )
  const drafts = async () =>
    (await readdir(stage.root)).filter((name) => name.startsWith(".sandpiper-draft-"))
  await untilTrue(async () => (await drafts()).length > 0, "the draft of the upload")
  expect(await (await stage.call("GET", "/v1/fs/entries?path=.")).text()).not.toContain("draft")
  socket.terminate()
  await untilEqual(drafts, [], "the removal of the draft")
  expect(await readFile(join(stage.root, "kept"), "utf8")).toBe("the former contents")
})

test("an upload that is announced as too large is refused before its body", async () => {
  const { hostname, port } = new URL(stage.gateway.url)
  const received = Promise.withResolvers<string>()
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { data: (_socket, bytes) => received.resolve(bytes.toString()) },
  })
  socket.write(
    `PUT /v1/fs/file?path=huge HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${API_TOKEN}\r\nContent-Length: ${64 * 1024 ** 3}\r\n\r\n`,
  )
  expect(await received.promise).toContain("413")
  socket.terminate()
})

test("changes below a watched directory arrive together, also those in new directories", async () => {
  await stage.call("POST", "/v1/fs/mkdir?path=seen/deep")
  const watching = new AbortController()
  const response = await stage.call("GET", "/v1/fs/watch?path=seen&recursive=true", {
    signal: watching.signal,
  })
  const reader = response.body?.getReader()
  let text = ""
  const until = async (wanted: string) => {
    while (!text.includes(wanted)) {
      const piece = await reader?.read()
      if (piece?.done !== false) throw new Error("the stream has ended")
      text += new TextDecoder().decode(piece.value)
    }
  }
  await until("event: ready")
  await Promise.all(["seen/a", "seen/b", "seen/deep/c"].map((path) => put(path, "x")))
  await until("deep/c")
  const events = text.split("event: change").length - 1
  expect(events).toBeLessThanOrEqual(3)
  await stage.call("POST", "/v1/fs/mkdir?path=seen/later")
  await until("seen/later")
  await put("seen/later/d", "x")
  await until("later/d")
  watching.abort()
})

test("the tools' token opens files and not processes; a person's token opens neither", async () => {
  const status = async (path: string, token: string) =>
    (await fetch(`${stage.gateway.url}${path}`, { headers: { authorization: `Bearer ${token}` } }))
      .status
  expect(await status("/v1/fs/entries", API_TOKEN)).toBe(200)
  expect(await status("/v1/processes", API_TOKEN)).toBe(401)
  expect(await status("/v1/fs/entries", makeToken())).toBe(401)
  expect(await status("/v1/processes", makeToken())).toBe(401)
})

test("the server itself answers to the gateway's token only", async () => {
  const address = await stage.supervisor.address()
  const own = `http://127.0.0.1:${address?.port}/v1/fs/entries`
  expect((await fetch(own)).status).toBe(401)
  const headers = { authorization: `Bearer ${API_TOKEN}` }
  expect((await fetch(own, { headers })).status).toBe(401)
})

test("the gateway reports at the end of a request that files may have changed, and not of one that only reads", async () => {
  const before = stage.writes()
  await (await put("reported.txt", "one")).text()
  await untilTrue(() => stage.writes() === before + 1, "the report of the upload")
  await (await stage.call("GET", "/v1/fs/file?path=reported.txt")).text()
  const command = "touch begun; while ! test -e go; do sleep 0.05; done; echo 2 > reported.txt"
  const body = JSON.stringify({ command: "sh", args: ["-c", command] })
  const run = stage.call("POST", "/v1/processes/run", { body })
  await untilTrue(() => existsSync(join(stage.root, "begun")), "the start of the program")
  // The program may still write.
  expect(stage.writes()).toBe(before + 1)
  await writeFile(join(stage.root, "go"), "")
  await (await run).text()
  await untilTrue(() => stage.writes() === before + 2, "the report of the program")
})

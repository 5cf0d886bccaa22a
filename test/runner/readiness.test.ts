/** Readiness: the component states behind /ready and the frames that report them. */
import { beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { diskStateOf } from "../../src/runner/host/disk-report.ts"
import { isReady } from "../../src/runner/gateway/components.ts"
import { createReadiness, type Readiness } from "../../src/runner/readiness.ts"
import type { OutboundFrame } from "../../src/wire/frames/index.ts"

let sent: OutboundFrame[]
let link: "open" | "waiting"
let channels: "idle" | "streaming"
let disk: ReturnType<typeof diskStateOf>
let readiness: Readiness
const types = () => sent.map(({ type }) => type)

beforeEach(() => {
  sent = []
  link = "open"
  channels = "idle"
  disk = undefined
  readiness = createReadiness({
    clock: systemClock,
    send: (frame) => void sent.push(frame),
    linkState: () => link,
    channelStatus: () => ({ status: channels }),
    disk: () => disk,
  })
})

test("a connection before the agent is ready reports that it is starting", () => {
  readiness.connected()
  expect(sent).toEqual([
    { type: "agentStatus", status: "thinking", detail: "starting", ready: false },
  ])
})

test("a ready agent sends its models and an idle status", () => {
  readiness.agentReady("http://127.0.0.1:4096", [], undefined)
  expect(types()).toEqual(["models", "agentStatus"])
  expect(readiness.opencodePort()).toBe(4096)
  expect(readiness.components()["agent"]?.state).toBe("ready")
})

test("on every connection a ready agent says that it can take prompts, also while a channel works", () => {
  readiness.agentReady("http://127.0.0.1:4096", [], undefined)
  channels = "streaming"
  sent = []
  readiness.connected()
  expect(sent[0]).toEqual({ type: "agentStatus", status: "streaming", ready: true })
})

test("the init that follows a connection causes no second status", () => {
  readiness.agentReady("http://127.0.0.1:4096", [], undefined)
  readiness.connected()
  sent = []
  readiness.reportOnRequest()
  expect(types()).toEqual([])
  readiness.reportOnRequest()
  expect(types()).toEqual(["agentStatus"])
})

test("a lost agent has no port and counts as a restart", () => {
  readiness.agentReady("http://127.0.0.1:4096", [], undefined)
  readiness.agentLost("it crashed")
  expect(readiness.opencodePort()).toBeUndefined()
  expect(readiness.components()["agent"]).toMatchObject({ state: "starting", restarts: 1 })
})

test("a failed agent is reported with its error", () => {
  readiness.agentFailed("no binary")
  expect(sent).toEqual([
    { type: "agentStatus", status: "error", detail: "no binary", ready: false },
  ])
  expect(readiness.components()["agent"]?.state).toBe("failed")
})

test("the link component follows the state of the link", () => {
  expect(readiness.components()["link"]?.state).toBe("ready")
  link = "waiting"
  expect(readiness.components()["link"]).toMatchObject({ state: "starting", why: "waiting" })
})

test("a disk that the fleet calls full is a component that prompts can run without", () => {
  readiness.agentReady("http://127.0.0.1:4096", [], undefined)
  expect(readiness.components()["disk"]).toBeUndefined()
  disk = { state: "degraded", why: "it is full" }
  expect(readiness.components()["disk"]).toMatchObject({ state: "degraded", why: "it is full" })
  expect(isReady(readiness.components())).toBe(true)
  disk = { state: "ready" }
  expect(readiness.components()["disk"]).toMatchObject({ state: "ready" })
})

test("the report of the fleet is read as what it is, and anything else as nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "disk-report-"))
  const file = join(folder, "disk.json")
  const read = (content: object | string) => {
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content))
    return diskStateOf(file)
  }
  try {
    expect(diskStateOf(undefined)).toBeUndefined()
    expect(diskStateOf(file)).toBeUndefined()
    expect(read({ state: "ok", usedBytes: 1 })).toEqual({ state: "ready" })
    expect(read({ state: "near" })).toMatchObject({ state: "degraded" })
    const full = { state: "full", advice: "delete files" }
    expect(read(full)).toEqual({ state: "degraded", why: "delete files" })
    for (const other of ["", "{", "[]", { state: "other" }]) expect(read(other)).toBeUndefined()
  } finally {
    rmSync(folder, { recursive: true })
  }
})

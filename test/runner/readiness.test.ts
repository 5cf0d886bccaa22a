/** Readiness: the component states behind /ready and the frames that report them. */
import { beforeEach, expect, test } from "bun:test"
import { systemClock } from "../../src/lib/clock.ts"
import { createReadiness, type Readiness } from "../../src/runner/readiness.ts"
import type { OutboundFrame } from "../../src/wire/frames/index.ts"

let sent: OutboundFrame[]
let link: "open" | "waiting"
let channels: "idle" | "streaming"
let readiness: Readiness
const types = () => sent.map(({ type }) => type)

beforeEach(() => {
  sent = []
  link = "open"
  channels = "idle"
  readiness = createReadiness({
    clock: systemClock,
    send: (frame) => void sent.push(frame),
    linkState: () => link,
    channelStatus: () => ({ status: channels }),
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

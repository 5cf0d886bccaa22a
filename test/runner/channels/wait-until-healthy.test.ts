/** Prompts that meet an OpenCode which answers no more: none is lost, none is given up too soon. */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import { AgentCallError, type AgentClient } from "../../../src/runner/opencode/client/client.ts"
import { createIdMint } from "../../../src/runner/opencode/client/ids.ts"
import { openChannelStore } from "../../../src/runner/channels/channel-store.ts"
import { createChannels } from "../../../src/runner/channels/channels.ts"
import { openJobStore } from "../../../src/runner/channels/job-store.ts"
import type { OutboundFrame } from "../../../src/wire/frames/index.ts"
import { createManualClock } from "../../kit/clock.ts"
import { silentLog as log } from "../../kit/log.ts"
import { recordings } from "../turn/recorded.ts"
import { createFakeAgent } from "./fake-agent.ts"

const nobody = () =>
  Promise.reject(new AgentCallError("GET /x", undefined, { detail: "ECONNREFUSED" }))

const start = (client: Partial<AgentClient>) => {
  const clock = createManualClock()
  const db = new Database(":memory:", { strict: true })
  const fake = createFakeAgent(recordings.slice(0, 1))
  const frames: OutboundFrame[] = []
  const channels = createChannels({
    sessions: openChannelStore(db),
    jobs: openJobStore(db),
    clock,
    log,
    mint: createIdMint(clock.now),
    send: (frame) => void frames.push(frame),
    prepare: async (prompt) => ({
      body: { messageID: `msg_prompt_${prompt.messageId}`, parts: [] },
      models: ["a/one"],
    }),
  })
  channels.agentReady({ client: { ...fake.client, ...client }, defaultModel: "a/one" })
  channels.take({ type: "prompt", messageId: "p1", content: "go" })
  /** Lets time and promises go on. */
  const pass = async (ms: number) => {
    for (let left = ms; left >= 0; left -= 100) {
      for (let round = 0; round < 20; round += 1) await Promise.resolve()
      clock.advance(100)
    }
  }
  const told = () => frames.map(({ type }) => type).filter((type) => type !== "agentStatus")
  return { channels, pass, told, frames }
}

test("one that meets a death before it is told waits for the next OpenCode", async () => {
  const { channels, pass, told } = start({ createSession: nobody, health: nobody })
  await pass(5000)
  expect(told()).toEqual([])
  expect(channels.isIdle()).toBe(false)
  channels.agentLost("OpenCode was killed by SIGKILL")
  await pass(500)
  expect(told()).toEqual([])
  const next = createFakeAgent(recordings.slice(0, 1))
  channels.agentReady({ client: next.client, defaultModel: "a/one" })
  await pass(500)
  expect(next.prompts).toMatchObject([{ messageId: "msg_prompt_p1" }])
  expect(told()).not.toContain("error")
})

test("one that an OpenCode leaves unanswered is said to it again when it answers again", async () => {
  let isWell = false
  const well = createFakeAgent(recordings.slice(0, 1))
  const { pass, told } = start({
    createSession: () => (isWell ? well.client.createSession() : nobody()),
    health: () => (isWell ? well.client.health() : nobody()),
    prompt: well.client.prompt,
  })
  await pass(3000)
  isWell = true
  await pass(1000)
  expect(well.prompts).toHaveLength(1)
  expect(told()).not.toContain("error")
})

test("one that an OpenCode which is well never answers ends with an error after the third try", async () => {
  let tries = 0
  const { pass, told } = start({
    createSession: () => {
      tries += 1
      return nobody()
    },
  })
  await pass(5000)
  expect(tries).toBe(3)
  expect(told()).toEqual(["error", "complete"])
})

test("one that waits for a verdict can be stopped", async () => {
  const { channels, pass, frames } = start({ createSession: nobody, health: nobody })
  await pass(1000)
  await channels.stop(undefined, "stopped by the user")
  await pass(1000)
  expect(frames.filter(({ type }) => type === "complete")).toHaveLength(1)
  expect(channels.isIdle()).toBe(true)
})

test("one that OpenCode refuses ends with its words at once", async () => {
  const refuses = () =>
    Promise.reject(new AgentCallError("POST /session", 400, { detail: "not like this" }))
  const { pass, frames } = start({ createSession: refuses })
  await pass(0)
  expect(frames.find(({ type }) => type === "error")).toMatchObject({
    error: expect.stringContaining("not like this"),
  })
})

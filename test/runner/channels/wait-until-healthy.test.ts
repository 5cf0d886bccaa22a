/** Prompts whose calls to OpenCode get no response. */
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

const noResponse = () =>
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
  /** Advances the clock and lets pending promises run. */
  const pass = async (ms: number) => {
    for (let left = ms; left >= 0; left -= 100) {
      for (let round = 0; round < 20; round += 1) await Promise.resolve()
      clock.advance(100)
    }
  }
  const sentTypes = () => frames.map(({ type }) => type).filter((type) => type !== "agentStatus")
  return { channels, db, pass, sentTypes, frames }
}

test("a prompt whose calls fail before OpenCode's death is reported waits for the next OpenCode", async () => {
  const { channels, pass, sentTypes } = start({ createSession: noResponse, health: noResponse })
  await pass(5000)
  expect(sentTypes()).toEqual([])
  expect(channels.isIdle()).toBe(false)
  channels.agentLost("OpenCode was killed by SIGKILL")
  await pass(500)
  expect(sentTypes()).toEqual([])
  const next = createFakeAgent(recordings.slice(0, 1))
  channels.agentReady({ client: next.client, defaultModel: "a/one" })
  await pass(500)
  expect(next.prompts).toMatchObject([{ messageId: "msg_prompt_p1" }])
  expect(sentTypes()).not.toContain("error")
})

test("a prompt whose calls got no response is started again when OpenCode is healthy again", async () => {
  let isHealthy = false
  const healthy = createFakeAgent(recordings.slice(0, 1))
  const { pass, sentTypes } = start({
    createSession: () => (isHealthy ? healthy.client.createSession() : noResponse()),
    health: () => (isHealthy ? healthy.client.health() : noResponse()),
    prompt: healthy.client.prompt,
  })
  await pass(3000)
  isHealthy = true
  await pass(1000)
  expect(healthy.prompts).toHaveLength(1)
  expect(sentTypes()).not.toContain("error")
})

test("a prompt to which a healthy OpenCode never responds ends with an error after the third try", async () => {
  let tries = 0
  const { pass, sentTypes } = start({
    createSession: () => {
      tries += 1
      return noResponse()
    },
  })
  await pass(5000)
  expect(tries).toBe(3)
  expect(sentTypes()).toEqual(["error", "complete"])
})

test("a prompt that waits for OpenCode to become healthy can be stopped", async () => {
  const { channels, pass, frames } = start({ createSession: noResponse, health: noResponse })
  await pass(1000)
  await channels.stop(undefined, "stopped by the user")
  await pass(1000)
  expect(frames.filter(({ type }) => type === "complete")).toHaveLength(1)
  expect(channels.isIdle()).toBe(true)
})

test("a prompt that OpenCode refuses ends at once with OpenCode's error message", async () => {
  const refuses = () =>
    Promise.reject(new AgentCallError("POST /session", 400, { detail: "not like this" }))
  const { pass, frames } = start({ createSession: refuses })
  await pass(0)
  expect(frames.find(({ type }) => type === "error")).toMatchObject({
    error: expect.stringContaining("not like this"),
  })
})

test("OpenCode's statuses that arrive after the runner has closed its database are ignored", async () => {
  const statuses = Promise.withResolvers<Awaited<ReturnType<AgentClient["statuses"]>>>()
  const { channels, db, pass } = start({ statuses: () => statuses.promise })
  await pass(500)
  channels.agentLost("the runner is shutting down")
  db.close()
  const errors: unknown[] = []
  const onError = (error: unknown) => void errors.push(error)
  process.on("unhandledRejection", onError)
  try {
    statuses.resolve(new Map([["ses_1", { type: "busy" }]]))
    await pass(500)
    expect(errors).toEqual([])
  } finally {
    process.off("unhandledRejection", onError)
  }
})

/** Three channels run recordings concurrently, with stream gaps, pauses and restarts of the runner at random points. */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import { array, assert, asyncProperty, nat } from "fast-check"
import { createIdMint } from "../../../src/runner/opencode/client/ids.ts"
import { openChannelStore } from "../../../src/runner/channels/channel-store.ts"
import { type Channels, createChannels } from "../../../src/runner/channels/channels.ts"
import { openJobStore } from "../../../src/runner/channels/job-store.ts"
import type { Clock } from "../../../src/lib/clock.ts"
import type { Outbound, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { recordings } from "../turn/recorded.ts"
import { createFakeAgent } from "./fake-agent.ts"
import { silentLog as log } from "../../kit/log.ts"

const seed = Date.now() % 2 ** 31

/** Recordings that end successfully without intervention. */
const successful = recordings.filter(({ name, isOld }) =>
  ["text#1", "reasoning#1", "tool_bash#1", "todo#1", "subtask#1", "cut_then_ok#1"].some(
    (end) => !isOld && name.endsWith(end),
  ),
)

/** A clock that stands still until it is advanced. */
const createClock = () => {
  let now = 1_000_000
  let timers: { readonly at: number; readonly run: () => void }[] = []
  const clock: Clock = {
    now: () => now,
    after: (ms, run) => {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => void (timers = timers.filter((other) => other !== timer))
    },
  }
  return {
    clock,
    advance: (ms: number) => {
      now += ms
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter((timer) => !due.includes(timer))
      for (const { run } of due) run()
    },
    cancelAll: () => void (timers = []),
  }
}

/** Lets pending promises run. */
const settle = async () => {
  for (let round = 0; round < 12; round += 1) await Promise.resolve()
}

const CHANNELS = ["a", "b", "c"]
/** How often all turns were paused; the test must have tried it at least once. */
let pauses = 0

const play = async (tape: readonly number[]): Promise<readonly OutboundFrame[]> => {
  const db = new Database(":memory:", { strict: true })
  const time = createClock()
  const agent = createFakeAgent(successful)
  const frames: OutboundFrame[] = []
  let place = 0
  const draw = (below: number) => (tape[(place += 1) % tape.length] ?? 0) % below
  let process = 0
  /** Starts the channels of a new process of the runner on the same state. */
  const startProcess = (): Channels => {
    const own = (process += 1)
    const channels: Channels = createChannels({
      sessions: openChannelStore(db),
      jobs: openJobStore(db),
      clock: time.clock,
      log,
      mint: createIdMint(time.clock.now),
      send: (frame) => {
        // A process that was replaced sends and stores nothing more.
        if (own !== process) return
        frames.push(frame)
        queueMicrotask(() => {
          if (own !== process) return
          channels.persist()
          channels.persisted()
        })
      },
      prepare: async (prompt) => ({
        body: { messageID: `msg_prompt_${prompt.messageId}`, parts: [] },
        models: ["a/one"],
      }),
    })
    channels.agentReady({ client: agent.client, defaultModel: "a/one" })
    return channels
  }
  let channels = startProcess()
  /** As for a new config: running turns end, then queued jobs continue with the same agent or with a new one. */
  const pause = async () => {
    const paused = channels
    await paused.pauseTurns()
    if (paused !== channels) return
    expect(paused.active().filter(({ turnId }) => turnId !== undefined)).toEqual([])
    pauses += 1
    if (draw(2) === 0) paused.resumeTurns()
    else paused.agentReady({ client: agent.client, defaultModel: "a/one" })
  }
  for (const channelId of CHANNELS) {
    for (const number of [1, 2]) {
      channels.take({
        type: "prompt",
        messageId: `${channelId}${number}`,
        content: "go",
        channelType: "test",
        channelId,
      })
    }
  }
  await settle()
  for (let turn = 0; turn < 4000 && !channels.isIdle(); turn += 1) {
    const event = agent.next(draw(1000))
    if (event) channels.agentEvent(event)
    else time.advance(2000)
    const fate = draw(997)
    if (fate < 8) {
      channels.streamGap()
    } else if (fate < 14) {
      await settle()
      time.cancelAll()
      channels = startProcess()
    } else if (fate < 22) {
      void pause()
    }
    if (!event || fate % 3 === 0) await settle()
  }
  await settle()
  expect(channels.isIdle()).toBe(true)
  db.close()
  return frames
}

const isOf =
  <Type extends OutboundFrame["type"]>(type: Type) =>
  (frame: OutboundFrame): frame is Outbound<Type> =>
    frame.type === type

test(`every prompt ends once, in order and on its own channel (seed ${seed})`, async () => {
  const tape = array(nat(99_999), { minLength: 5, maxLength: 80 })
  await assert(
    asyncProperty(tape, async (numbers) => {
      const frames = await play(numbers)
      for (const channelId of CHANNELS) {
        const own = frames.filter((frame) => "channelId" in frame && frame.channelId === channelId)
        const ends = own.filter(isOf("complete")).map(({ messageId }) => messageId)
        expect(ends).toEqual([`${channelId}1`, `${channelId}2`])
        const finals = own.filter(isOf("message.finalize"))
        expect(finals.map(({ messageId }) => messageId)).toEqual(ends)
        for (const { turnId, finalText, reason } of finals) {
          const dropped = own
            .filter(isOf("retry"))
            .flatMap(({ droppedParts }) => droppedParts ?? [])
          const deltas = own
            .filter(isOf("message.part.text-delta"))
            .filter((delta) => delta.turnId === turnId && !dropped.includes(delta.partId ?? ""))
            // The words of a sub-agent are shown with its tool call; they are not part of the answer.
            .filter((delta) => delta.childSessionId === undefined)
          expect(reason).toBe("end_turn")
          expect(deltas.map(({ delta }) => delta).join("")).toBe(finalText ?? "")
        }
      }
    }),
    { numRuns: 300, seed },
  )
  expect(pauses).toBeGreaterThan(0)
})

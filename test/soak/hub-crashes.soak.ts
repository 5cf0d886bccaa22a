/**
 * Crashes of the hub, of the runner or of both at random moments of long answers. A crashed hub continues from its files at
 * that moment, a crashed runner from its state directory; the answer must be exact.
 */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { cpSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startTcpProxy } from "../kit/tcp-proxy.ts"
import { connectClient } from "../hub/kit/client.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { freePort } from "../kit/free-port.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN, startTestHub, type TestHub } from "../hub/kit/hub.ts"
import { untilTrue } from "../kit/until-true.ts"

const DELTAS = 1000
const TURNS = 10
const CRASHES_A_TURN = 20

interface Crash {
  readonly who: "hub" | "runner" | "both"
  /** How many pieces are sent before the crash, and how long after them it happens. */
  readonly after: number
  readonly waitMs: number
}

const crash = fc.record({
  who: fc.constantFrom("hub", "runner", "both"),
  after: fc.integer({ min: 1, max: 45 }),
  // Around the hub's own delays: 50 ms to an acknowledgement, 250 ms to a batch.
  waitMs: fc.oneof(
    fc.integer({ min: 0, max: 10 }),
    fc.integer({ min: 10, max: 60 }),
    fc.integer({ min: 60, max: 160 }),
  ),
})

/** A hub and a runner that can be killed, and a proxy between them that is cut first. */
const startWorld = async () => {
  const folder = await mkdtemp(join(tmpdir(), "crashes-"))
  const port = freePort()
  const proxy = await startTcpProxy(port)
  let starts = 0
  let current: TestHub = await startTestHub({ stateDir: join(folder, "hub-0"), port })
  const pieces = Array.from(
    { length: DELTAS },
    (_, index) => `${index}${index % 7 === 0 ? "👋" : ""} `,
  )
  const answer = pieces.flatMap((piece) =>
    piece.includes("👋") ? [piece.slice(0, -2), piece.slice(-2)] : [piece],
  )
  const launch = (): FakeRunner =>
    startFakeRunner({
      url: `ws://127.0.0.1:${proxy.port}/sessions/s1/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, "runner"),
      answer: () => answer,
    })
  let runner = launch()
  const prompts: string[] = []
  const killRunner = () => {
    prompts.push(...runner.prompts.map(({ messageId }) => messageId))
    runner.kill()
  }
  const killHub = async () => {
    // Cut the connection, then copy the files: what is only in memory is lost.
    proxy.setDown(true)
    proxy.reset()
    const before = current
    starts += 1
    const stateDir = join(folder, `hub-${starts}`)
    cpSync(before.stateDir, stateDir, { recursive: true })
    await before.stop()
    current = await startTestHub({ stateDir, port }, undefined)
    proxy.setDown(false)
  }
  return {
    text: pieces.join(""),
    runner: () => runner,
    hub: () => current.hub,
    stateDir: () => current.stateDir,
    dispatched: () => [...prompts, ...runner.prompts.map(({ messageId }) => messageId)],
    crash: async (who: Crash["who"]) => {
      if (who !== "hub") killRunner()
      if (who !== "runner") await killHub()
      if (who !== "hub") runner = launch()
    },
    stop: async () => {
      await runner.stop()
      await current.stop()
      await proxy.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Pieces of one tick travel as one frame: a few at a time make many frames. */
const workInSteps = async (runner: FakeRunner, pieces: number) => {
  for (let made = 0; made < pieces; made += 3) {
    runner.work(3)
    // Sleep: ends the tick, so that the next pieces are another frame.
    await Bun.sleep(0)
  }
}

/** Read from the file: a query to the hub would make it write its buffer. */
const storedLength = (stateDir: string): number => {
  const db = new Database(join(stateDir, "hub/sessions/s1.db"), { readonly: true })
  const row = db
    .query<{ size: number }, []>("SELECT size FROM parts ORDER BY place DESC LIMIT 1")
    .get()
  db.close()
  return row?.size ?? 0
}

test(`answers of ${DELTAS} deltas are exact after ${TURNS * CRASHES_A_TURN} crashes and nothing runs twice`, async () => {
  const seed = Date.now() & 0x7fffffff
  const plans = fc.sample(
    fc.array(crash, { minLength: CRASHES_A_TURN, maxLength: CRASHES_A_TURN }),
    { numRuns: TURNS, seed },
  )
  const world = await startWorld()
  /** The stored length of the answer at each crash: checks that the crashes hit different moments. */
  const moments = new Set<string>()
  try {
    for (const [turn, plan] of plans.entries()) {
      const session = world.hub().find("s1")
      const messageId = `prompt-${turn}`
      session?.prompt({ type: "prompt", messageId, content: "go" }, "web:default")
      await untilTrue(() => world.runner().busy() === 1, "turn")
      for (const { who, after, waitMs } of plan) {
        await workInSteps(world.runner(), after)
        // Sleep: the moment of the crash is chosen at random.
        await Bun.sleep(waitMs)
        moments.add(`${turn} ${storedLength(world.stateDir())}`)
        await world.crash(who)
      }
      const done = () => world.hub().find("s1")?.status().working === 0
      await untilTrue(() => {
        world.runner().work(50)
        return done()
      }, `end of turn ${turn} (seed ${seed})`)
      const answers = world
        .hub()
        .find("s1")
        ?.recent(200)
        .filter((message) => message.role === "assistant" && message.promptId === messageId)
      expect({ seed, turn, count: answers?.length, status: answers?.[0]?.status }).toEqual({
        seed,
        turn,
        count: 1,
        status: "done",
      })
      expect(answers?.[0]?.parts.map((part) => part.text).join("")).toBe(world.text)
    }
    expect(moments.size).toBeGreaterThan((TURNS * CRASHES_A_TURN) / 4)
    const client = await connectClient(world.hub().url, CLIENT_TOKEN)
    expect(client.answerTo("prompt-3")).toBe(world.text)
    expect(client.queue()).toEqual([])
    client.close()
  } finally {
    await world.stop()
  }
}, 300_000)

test("a prompt of a dead runner is dispatched to the next runner, and its partial answer is ended", async () => {
  const folder = await mkdtemp(join(tmpdir(), "crashes-"))
  const { hub, stop } = await startTestHub()
  const launch = () =>
    startFakeRunner({
      url: hub.runnerUrl("s1"),
      token: RUNNER_TOKEN,
      stateDir: join(folder, crypto.randomUUID()),
      answer: () => ["one ", "two "],
    })
  let second: FakeRunner | undefined
  try {
    const first = launch()
    hub.find("s1")?.prompt({ type: "prompt", messageId: "p1", content: "go" }, "web:default")
    await untilTrue(() => first.busy() === 1, "turn")
    first.work(1)
    await untilTrue(() => hub.find("s1")?.recent(9).length === 2, "first delta")
    first.kill()
    const next = launch()
    second = next
    await untilTrue(() => next.busy() === 1, "turn of the second")
    next.work(5)
    await untilTrue(() => hub.find("s1")?.status().working === 0, "end")
    const answers = hub
      .find("s1")
      ?.recent(9)
      .filter(({ role }) => role === "assistant")
    expect(answers?.map(({ status }) => status)).toEqual(["canceled", "done"])
    expect(answers?.[1]?.parts.map((part) => part.text).join("")).toBe("one two ")
  } finally {
    await second?.stop()
    await stop()
    await rm(folder, { recursive: true, force: true })
  }
})

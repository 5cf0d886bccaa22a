/** What a session reports to a fleet in another process, when, and what people read while the fleet is unreachable. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { SessionActivity } from "../../../src/hub/session/ports.ts"
import { createManualClock } from "../../kit/clock.ts"
import { type Core, createCore } from "../kit/core.ts"

interface Fleet {
  readonly told: SessionActivity[]
  away: boolean
}

const settle = async () => {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
}

const start = (): { readonly core: Core; readonly fleet: Fleet } => {
  const fleet: Fleet = { told: [], away: false }
  const core = createCore(undefined, createManualClock(1_000_000), undefined, undefined, {
    tellFleet: async (activity) => {
      if (fleet.away) throw new Error("connection refused")
      fleet.told.push(activity)
    },
  })
  return { core, fleet }
}

const prompt = (core: Core, messageId: string) =>
  core.session.prompt(
    { type: "prompt", messageId, content: "x", channelType: "web", channelId: "default" },
    "web:default",
  )
const notesOf = (core: Core) => core.session.recent(50).filter(({ role }) => role === "system")

describe("a session with a fleet elsewhere", () => {
  test("a session without work tells nothing, the first prompt is told, and the same state is told once", async () => {
    const { core, fleet } = start()
    core.session.setTitle("quiet")
    await settle()
    expect(fleet.told).toEqual([])
    prompt(core, "p1")
    await settle()
    core.session.setTitle("still the same work")
    await settle()
    expect(fleet.told).toMatchObject([{ queued: 1, working: 0, connected: false, generation: 0 }])
  })

  test("a runner whose token another program has set is not reported", async () => {
    const { core, fleet } = start()
    core.session.setRunnerToken("hash")
    prompt(core, "p1")
    await settle()
    expect(fleet.told).toEqual([])
    expect(core.session.activity().hasOtherRunner).toBe(true)
  })

  test("an order of a workflow counts as work until its result", async () => {
    const { core, fleet } = start()
    core.session.orderWorkflow("o1", {
      type: "workflow-execute",
      executionId: "e1",
      payload: {} as never,
    })
    await settle()
    expect(fleet.told).toMatchObject([{ working: 1 }])
  })

  test("a failed report is repeated with growing delays, also after a restart, and the conversation gets one note", async () => {
    const { core, fleet } = start()
    fleet.away = true
    prompt(core, "p1")
    await settle()
    for (let seconds = 0; seconds < 30; seconds++) {
      core.clock.advance(1000)
      await settle()
    }
    expect(notesOf(core)).toHaveLength(1)
    expect(core.reports.filter((event) => event === "hub.delivery-failed").length).toBeLessThan(10)
    fleet.away = false
    const next = core.restart()
    next.session.recover([])
    await settle()
    expect(fleet.told).toMatchObject([{ queued: 1 }])
    expect(notesOf(next)).toHaveLength(1)
  })

  test("after any sequence of prompts, ends and failures the fleet knows the present state", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("prompt", "away", "back", "token", "wait", "restart"), {
          maxLength: 25,
        }),
        async (steps) => {
          const { core: first, fleet } = start()
          let core = first
          let generation = 0
          for (const [index, step] of steps.entries()) {
            if (step === "prompt") prompt(core, `p${index}`)
            if (step === "away" || step === "back") fleet.away = step === "away"
            if (step === "token") core.session.setRunnerToken("h", ++generation)
            if (step === "wait") core.clock.advance(3000)
            if (step === "restart") {
              core = core.restart()
              core.session.recover([])
            }
            await settle()
          }
          fleet.away = false
          core.clock.advance(120_000)
          await settle()
          const now = core.session.activity()
          if (now.queued > 0 || now.generation > 0) expect(fleet.told.at(-1)).toEqual(now)
          else expect(fleet.told).toEqual([])
        },
      ),
      { numRuns: 200 },
    )
  })
})

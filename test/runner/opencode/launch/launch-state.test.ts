/** The agent's life: single cases by name, and any order of events against a world that keeps count. */
import { describe, expect, test } from "bun:test"
import { array, assert, nat, property } from "fast-check"
import {
  FATAL_FAILURES,
  type LaunchEffect,
  type LaunchEvent,
  type LaunchState,
  newLaunch,
  type Plan,
  stepLaunch,
  STEADY_MS,
} from "../../../../src/runner/opencode/launch/launch-state.ts"

const limits = { drainMs: 30_000, random: () => 0 }
const plan = (serial: number, hash = `h${serial}`, processHash = "p"): Plan => ({
  serial,
  hash,
  processHash,
})

/** Steps through the events and gives the end and the effects of the last one. */
const after = (
  events: readonly LaunchEvent[],
  { from = newLaunch(), now = 0 }: { from?: LaunchState; now?: number } = {},
): [LaunchState, readonly LaunchEffect[]] =>
  events.reduce<[LaunchState, readonly LaunchEffect[]]>(
    ([state], event) => [...stepLaunch(state, event, now, limits)],
    [from, []],
  )

const gathered: LaunchEvent = { type: "timer", name: "gather" }
const running = (with_: Plan): LaunchState =>
  after([{ type: "want", plan: with_ }, gathered, { type: "up", plan: with_, adopted: false }])[0]
const names = (effects: readonly LaunchEffect[]) => effects.map((effect) => effect.do)

describe("the first configuration", () => {
  test("starts OpenCode once, with the newest of a burst", () => {
    const [, effects] = after([
      { type: "want", plan: plan(1) },
      { type: "want", plan: plan(2) },
      { type: "want", plan: plan(3) },
      gathered,
    ])
    expect(effects).toEqual([{ do: "launch", plan: plan(3) }])
  })

  test("is answered as a start, not a restart", () => {
    const one = plan(1)
    const [, effects] = after([
      { type: "want", plan: one },
      gathered,
      { type: "up", plan: one, adopted: false },
    ])
    expect(effects).toEqual([{ do: "applied", plan: one, restarted: false }])
  })
})

describe("a configuration while OpenCode runs", () => {
  test("that is equal is answered at once and touches nothing", () => {
    const [state, effects] = after([{ type: "want", plan: plan(2, "h1") }], {
      from: running(plan(1)),
    })
    expect(effects).toEqual([{ do: "applied", plan: plan(2, "h1"), restarted: false }])
    expect(state.phase.name).toBe("up")
  })

  test("that the process can take waits for the turns, then reloads", () => {
    const [, drains] = after([{ type: "want", plan: plan(2) }, gathered], {
      from: running(plan(1)),
    })
    expect(names(drains)).toEqual(["drain", "timer"])
    const [, effects] = after([{ type: "want", plan: plan(2) }, gathered, { type: "quiet" }], {
      from: running(plan(1)),
    })
    expect(effects).toEqual([{ do: "reload", plan: plan(2) }])
  })

  test("that needs a new process stops the old one first", () => {
    const next = plan(2, "h2", "other")
    const from = running(plan(1))
    const [stopping, stops] = after([{ type: "want", plan: next }, gathered, { type: "quiet" }], {
      from,
    })
    expect(names(stops)).toEqual(["lost", "stop"])
    const [, starts] = after([{ type: "stopped" }], { from: stopping })
    expect(starts).toEqual([{ do: "launch", plan: next }])
  })

  test("ends the turns when they take too long", () => {
    const [, effects] = after(
      [{ type: "want", plan: plan(2) }, gathered, { type: "timer", name: "drain" }],
      { from: running(plan(1)) },
    )
    expect(names(effects)).toEqual(["lost", "reload"])
  })

  test("that is taken back while the turns end changes nothing", () => {
    const [state, effects] = after(
      [
        { type: "want", plan: plan(2) },
        gathered,
        { type: "want", plan: plan(3, "h1") },
        { type: "quiet" },
      ],
      { from: running(plan(1)) },
    )
    expect(names(effects)).toEqual(["applied"])
    expect(state.phase.name).toBe("up")
  })

  test("that fails is refused, and the former one comes back", () => {
    const bad = plan(2, "bad", "other")
    const [, effects] = after(
      [
        { type: "want", plan: bad },
        gathered,
        { type: "quiet" },
        { type: "stopped" },
        { type: "launch-failed", plan: bad, kind: "exit", error: "it exits at once" },
      ],
      { from: running(plan(1)) },
    )
    expect(effects).toEqual([
      { do: "refused", serial: 2, error: "it exits at once" },
      { do: "launch", plan: plan(1) },
    ])
  })
})

describe("an OpenCode that ends by itself", () => {
  const crash: LaunchEvent = { type: "exited", why: "killed by SIGKILL" }
  const back: readonly LaunchEvent[] = [
    { type: "stopped" },
    { type: "timer", name: "backoff" },
    { type: "up", plan: plan(1), adopted: false },
  ]

  test("is told of at once, and its children are ended before it is started again", () => {
    const [state, effects] = after([crash], { from: running(plan(1)) })
    expect(names(effects)).toEqual(["lost", "stop"])
    const [, waits] = after([{ type: "stopped" }], { from: state })
    expect(waits).toEqual([{ do: "timer", name: "backoff", ms: 1000 }])
  })

  test("waits longer each time, and is given up at the fifth within two minutes", () => {
    let state = running(plan(1))
    const waits: number[] = []
    for (let count = 1; count < FATAL_FAILURES; count += 1) {
      const [stopped, effects] = after([crash, { type: "stopped" }], { from: state, now: count })
      waits.push(...effects.flatMap((effect) => (effect.do === "timer" ? [effect.ms] : [])))
      state = after(back.slice(1), { from: stopped, now: count })[0]
    }
    expect(waits).toEqual([1000, 1000, 2000, 4000])
    const [given, effects] = after([crash, { type: "stopped" }], { from: state, now: 5 })
    expect(names(effects)).toEqual(["fatal"])
    expect(given.phase.name).toBe("fatal")
    expect(names(after([{ type: "want", plan: plan(9) }, gathered], { from: given })[1])).toEqual([
      "launch",
    ])
  })

  test("has a clean record after a minute of work", () => {
    let state = running(plan(1))
    for (let count = 1; count <= 20; count += 1) {
      state = after([crash, ...back], { from: state, now: count * STEADY_MS })[0]
    }
    expect(state.phase.name).toBe("up")
    expect(state.failures).toHaveLength(1)
  })
})

describe("a port that someone else holds", () => {
  test("is tried again for ever and never counts as a crash", () => {
    let [state] = after([{ type: "want", plan: plan(1) }, gathered])
    for (let count = 0; count < 50; count += 1) {
      const failed: LaunchEvent = {
        type: "launch-failed",
        plan: plan(1),
        kind: "blocked",
        error: "pid 7 has it",
      }
      state = after([failed, { type: "timer", name: "backoff" }], { from: state })[0]
    }
    expect(state.phase.name).toBe("launching")
  })
})

/** A world that does what the machine asks, badly at times, and counts processes and answers. */
const simulate = (seeds: readonly number[]) => {
  let state = newLaunch()
  let now = 0
  let serial = 0
  let processes = 0
  let todo: LaunchEffect[] = []
  const asked = new Set<number>()
  let ended = 0

  const tell = (event: LaunchEvent) => {
    const [next, effects] = stepLaunch(state, event, now, limits)
    state = next
    for (const effect of effects) {
      if (effect.do === "applied")
        for (const open of asked) if (open <= effect.plan.serial) asked.delete(open)
      if (effect.do === "refused")
        for (const open of asked) if (open <= effect.serial) asked.delete(open)
      if (effect.do === "ended") ended += 1
      if (effect.do === "launch" && processes !== 0) throw new Error("a second process")
      if (effect.do === "launch" && todo.some((open) => open.do === "stop"))
        throw new Error("before the stop")
      if (["launch", "reload", "stop", "drain", "timer"].includes(effect.do)) todo.push(effect)
    }
  }

  const perform = (effect: LaunchEffect, luck: number) => {
    switch (effect.do) {
      case "launch": {
        const kinds = ["config", "blocked", "exit", "timeout", "setup"] as const
        const kind = kinds[luck % 16]
        if (kind) return tell({ type: "launch-failed", plan: effect.plan, kind, error: kind })
        processes += 1
        return tell({ type: "up", plan: effect.plan, adopted: luck % 2 === 0 })
      }
      case "reload":
        if (luck % 5 === 0) return tell({ type: "reload-failed", plan: effect.plan, error: "no" })
        return tell({ type: "reloaded", plan: effect.plan })
      case "stop":
        // What was being launched is ended with it.
        todo = todo.filter((open) => open.do !== "launch" && open.do !== "reload")
        processes = 0
        return tell({ type: "stopped" })
      case "drain":
        return tell({ type: "quiet" })
      case "timer":
        now += effect.ms
        return tell({ type: "timer", name: effect.name })
      default:
        throw new Error(`nothing to perform: ${effect.do}`)
    }
  }

  for (const luck of seeds) {
    now += luck % 5000
    const pick = luck % 10
    if (pick < 3) {
      serial += 1
      asked.add(serial)
      tell({ type: "want", plan: plan(serial, `h${luck % 4}`, `p${luck % 2}`) })
    } else if (pick === 3 && processes > 0) {
      processes = 0
      tell({ type: "exited", why: "killed" })
    } else {
      const [effect] = todo.splice(luck % Math.max(1, todo.length), 1)
      if (effect) perform(effect, luck >> 4)
    }
  }
  const drain = (luck: number) => {
    for (let left = 1000; todo.length > 0; left -= 1) {
      if (left === 0) throw new Error("it never comes to rest")
      const effect = todo.shift()
      if (effect) perform(effect, luck)
    }
  }
  return { state: () => state, tell, drain, asked, processes: () => processes, ended: () => ended }
}

describe("in any order of events", () => {
  const seed = Date.now() & 0x7fff_ffff
  const histories = array(nat({ max: 1 << 20 }), { maxLength: 120, size: "max" })

  test(`there is one process, every wish is answered and rest is reached (seed ${seed})`, () => {
    assert(
      property(histories, (seeds) => {
        const world = simulate(seeds)
        world.drain(9)
        const { phase, wanted, running: with_ } = world.state()
        expect(["off", "up", "fatal"]).toContain(phase.name)
        if (phase.name === "up") expect(with_?.hash).toBe(wanted?.hash ?? "")
        if (phase.name === "up") expect(world.processes()).toBe(1)
        expect([...world.asked]).toEqual([])
      }),
      { seed, numRuns: 5000 },
    )
  })

  test(`a shutdown leaves no process and is the last word (seed ${seed})`, () => {
    assert(
      property(histories, (seeds) => {
        const world = simulate(seeds)
        world.tell({ type: "shut-down" })
        world.drain(9)
        expect(world.processes()).toBe(0)
        expect(world.ended()).toBe(1)
        const before = world.state()
        world.tell({ type: "want", plan: plan(10_000) })
        expect(world.state()).toBe(before)
      }),
      { seed, numRuns: 5000 },
    )
  })
})

/** The launch state machine: single cases, and random event orders against a simulated supervisor. */
import { describe, expect, test } from "bun:test"
import { array, assert, nat, property } from "fast-check"
import {
  initialLaunchState,
  isSuperseded,
  type LaunchEffect,
  type LaunchEvent,
  type LaunchState,
  type PlanRef,
  plansInUse,
} from "../../../../src/runner/opencode/launch/launch-state.ts"
import {
  MAX_FAILURES,
  STABLE_AFTER_MS,
  stepLaunch,
} from "../../../../src/runner/opencode/launch/launch-step.ts"

const limits = { pauseTimeoutMs: 30_000, random: () => 0 }
const plan = (serial: number, hash = `h${serial}`, processHash = "p"): PlanRef => ({
  serial,
  hash,
  processHash,
})

/** Steps through the events; returns the final state and the effects of the last event. */
const after = (
  events: readonly LaunchEvent[],
  { from = initialLaunchState(), now = 0 }: { from?: LaunchState; now?: number } = {},
): [LaunchState, readonly LaunchEffect[]] =>
  events.reduce<[LaunchState, readonly LaunchEffect[]]>(
    ([state], event) => [...stepLaunch(state, event, now, limits)],
    [from, []],
  )

const batchOver: LaunchEvent = { type: "timer", name: "batch" }
const running = (given: PlanRef): LaunchState =>
  after([
    { type: "config-requested", plan: given },
    batchOver,
    { type: "launched", plan: given, adopted: false },
  ])[0]
const names = (effects: readonly LaunchEffect[]) => effects.map((effect) => effect.do)

describe("the first configuration", () => {
  test("a burst of first configurations launches OpenCode once, with the newest one", () => {
    const [, effects] = after([
      { type: "config-requested", plan: plan(1) },
      { type: "config-requested", plan: plan(2) },
      { type: "config-requested", plan: plan(3) },
      batchOver,
    ])
    expect(effects).toEqual([{ do: "launch", plan: plan(3) }])
  })

  test("the first configuration is reported as applied without a restart", () => {
    const one = plan(1)
    const [, effects] = after([
      { type: "config-requested", plan: one },
      batchOver,
      { type: "launched", plan: one, adopted: false },
    ])
    expect(effects).toEqual([{ do: "report-applied", plan: one, restarted: false }])
  })
})

describe("a configuration while OpenCode runs", () => {
  test("an equal configuration is reported as applied at once and changes nothing", () => {
    const [state, effects] = after([{ type: "config-requested", plan: plan(2, "h1") }], {
      from: running(plan(1)),
    })
    expect(effects).toEqual([{ do: "report-applied", plan: plan(2, "h1"), restarted: false }])
    expect(state.phase.name).toBe("up")
  })

  test("a configuration pauses turns at once, so that a prompt that follows it runs with it", () => {
    const [paused, effects] = after([{ type: "config-requested", plan: plan(2) }], {
      from: running(plan(1)),
    })
    expect(names(effects)).toEqual(["pause-turns", "set-timer"])
    const [, reloads] = after([{ type: "turns-paused" }, batchOver], { from: paused })
    expect(reloads).toEqual([{ do: "reload", plan: plan(2) }])
  })

  test("a configuration that is withdrawn in the burst that brought it changes nothing", () => {
    const [state, effects] = after(
      [
        { type: "config-requested", plan: plan(2) },
        { type: "turns-paused" },
        { type: "config-requested", plan: plan(3, "h1") },
        batchOver,
      ],
      { from: running(plan(1)) },
    )
    expect(names(effects)).toEqual(["report-applied"])
    expect(state.phase.name).toBe("up")
  })

  test("a configuration that is requested during a launch supersedes the launched one", () => {
    const [launching] = after([{ type: "config-requested", plan: plan(1) }, batchOver])
    expect(isSuperseded(launching)).toBe(false)
    const [outdated] = after([{ type: "config-requested", plan: plan(2) }], { from: launching })
    expect(isSuperseded(outdated)).toBe(true)
    const launched = { type: "launched", plan: plan(1), adopted: false } as const
    const [state, effects] = after([launched], { from: outdated })
    expect(names(effects)).toEqual(["report-applied", "pause-turns", "set-timer"])
    expect(isSuperseded(state)).toBe(false)
  })

  test("a configuration with the same process hash waits for the running turns, then reloads", () => {
    const [, drains] = after([{ type: "config-requested", plan: plan(2) }, batchOver], {
      from: running(plan(1)),
    })
    expect(names(drains)).toEqual(["set-timer"])
    const [, effects] = after(
      [{ type: "config-requested", plan: plan(2) }, batchOver, { type: "turns-paused" }],
      {
        from: running(plan(1)),
      },
    )
    expect(effects).toEqual([{ do: "reload", plan: plan(2) }])
  })

  test("a configuration that needs a new process stops the old process first", () => {
    const next = plan(2, "h2", "other")
    const from = running(plan(1))
    const [stopping, stops] = after(
      [{ type: "config-requested", plan: next }, batchOver, { type: "turns-paused" }],
      {
        from,
      },
    )
    expect(names(stops)).toEqual(["report-lost", "stop-process"])
    const [, starts] = after([{ type: "process-stopped" }], { from: stopping })
    expect(starts).toEqual([{ do: "launch", plan: next }])
  })

  test("a configuration ends the running turns when the pause deadline passes", () => {
    const [, effects] = after(
      [
        { type: "config-requested", plan: plan(2) },
        batchOver,
        { type: "timer", name: "pause-deadline" },
      ],
      { from: running(plan(1)) },
    )
    expect(names(effects)).toEqual(["report-lost", "reload"])
  })

  test("a configuration that is withdrawn while turns are being paused changes nothing", () => {
    const [state, effects] = after(
      [
        { type: "config-requested", plan: plan(2) },
        batchOver,
        { type: "config-requested", plan: plan(3, "h1") },
        { type: "turns-paused" },
      ],
      { from: running(plan(1)) },
    )
    expect(names(effects)).toEqual(["report-applied"])
    expect(state.phase.name).toBe("up")
  })

  test("a configuration that fails is refused, and the former one is launched again", () => {
    const bad = plan(2, "bad", "other")
    const [, effects] = after(
      [
        { type: "config-requested", plan: bad },
        batchOver,
        { type: "turns-paused" },
        { type: "process-stopped" },
        { type: "launch-failed", plan: bad, kind: "exit", error: "it exits at once" },
      ],
      { from: running(plan(1)) },
    )
    expect(effects).toEqual([
      { do: "report-refused", serial: 2, error: "it exits at once" },
      { do: "launch", plan: plan(1) },
    ])
  })
})

describe("a process that exits by itself", () => {
  const crash: LaunchEvent = { type: "process-lost", why: "killed by SIGKILL" }
  const back: readonly LaunchEvent[] = [
    { type: "process-stopped" },
    { type: "timer", name: "backoff" },
    { type: "launched", plan: plan(1), adopted: false },
  ]

  test("a crash is reported at once, and descendants are ended before the next launch", () => {
    const [state, effects] = after([crash], { from: running(plan(1)) })
    expect(names(effects)).toEqual(["report-lost", "stop-process"])
    const [, waits] = after([{ type: "process-stopped" }], { from: state })
    expect(waits).toEqual([{ do: "set-timer", name: "backoff", ms: 1000 }])
  })

  test("the backoff grows with each crash, and the fifth crash within two minutes is fatal", () => {
    let state = running(plan(1))
    const waits: number[] = []
    for (let count = 1; count < MAX_FAILURES; count += 1) {
      const [stopped, effects] = after([crash, { type: "process-stopped" }], {
        from: state,
        now: count,
      })
      waits.push(...effects.flatMap((effect) => (effect.do === "set-timer" ? [effect.ms] : [])))
      state = after(back.slice(1), { from: stopped, now: count })[0]
    }
    expect(waits).toEqual([1000, 1000, 2000, 4000])
    const [given, effects] = after([crash, { type: "process-stopped" }], { from: state, now: 5 })
    expect(names(effects)).toEqual(["report-fatal"])
    expect(given.phase.name).toBe("fatal")
    expect(
      names(after([{ type: "config-requested", plan: plan(9) }, batchOver], { from: given })[1]),
    ).toEqual(["launch"])
  })

  test("a minute of uptime clears the earlier failures", () => {
    let state = running(plan(1))
    for (let count = 1; count <= 20; count += 1) {
      state = after([crash, ...back], { from: state, now: count * STABLE_AFTER_MS })[0]
    }
    expect(state.phase.name).toBe("up")
    expect(state.failures).toHaveLength(1)
  })
})

describe("a port that another process holds", () => {
  test("a launch on a blocked port is retried without a limit and never counts as a failure", () => {
    let [state] = after([{ type: "config-requested", plan: plan(1) }, batchOver])
    for (let count = 0; count < 50; count += 1) {
      const failed: LaunchEvent = {
        type: "launch-failed",
        plan: plan(1),
        kind: "blocked",
        error: "pid 7 holds it",
      }
      state = after([failed, { type: "timer", name: "backoff" }], { from: state })[0]
    }
    expect(state.phase.name).toBe("launching")
  })
})

/** Performs the effects, some of them with failures, and counts processes and open replies. */
const simulate = (seeds: readonly number[]) => {
  let state = initialLaunchState()
  let now = 0
  let serial = 0
  let processes = 0
  let pending: LaunchEffect[] = []
  const unreplied = new Set<number>()
  /** The plans that are kept, as the supervisor keeps them. */
  const kept = new Set<string>()
  let ended = 0

  const dispatch = (event: LaunchEvent) => {
    if (event.type === "config-requested") kept.add(event.plan.hash)
    const [next, effects] = stepLaunch(state, event, now, limits)
    state = next
    for (const effect of effects) {
      if ("plan" in effect && !kept.has(effect.plan.hash))
        throw new Error(`${effect.do} names a plan that was dropped`)
      if (effect.do === "report-applied")
        for (const open of unreplied) if (open <= effect.plan.serial) unreplied.delete(open)
      if (effect.do === "report-refused")
        for (const open of unreplied) if (open <= effect.serial) unreplied.delete(open)
      if (effect.do === "report-ended") ended += 1
      if (effect.do === "launch" && processes !== 0) throw new Error("launched a second process")
      if (effect.do === "launch" && pending.some((open) => open.do === "stop-process"))
        throw new Error("launched before the stop was done")
      if (["launch", "reload", "stop-process", "pause-turns", "set-timer"].includes(effect.do))
        pending.push(effect)
    }
    const inUse = plansInUse(next)
    for (const hash of kept) if (!inUse.has(hash)) kept.delete(hash)
  }

  const perform = (effect: LaunchEffect, luck: number) => {
    switch (effect.do) {
      case "launch": {
        const kinds = ["config", "blocked", "exit", "timeout", "setup"] as const
        const kind = kinds[luck % 16]
        if (kind) return dispatch({ type: "launch-failed", plan: effect.plan, kind, error: kind })
        processes += 1
        return dispatch({ type: "launched", plan: effect.plan, adopted: luck % 2 === 0 })
      }
      case "reload":
        if (luck % 5 === 0)
          return dispatch({ type: "reload-failed", plan: effect.plan, error: "no" })
        return dispatch({ type: "reloaded", plan: effect.plan })
      case "stop-process":
        // A launch or reload in progress ends with the process.
        pending = pending.filter((open) => open.do !== "launch" && open.do !== "reload")
        processes = 0
        return dispatch({ type: "process-stopped" })
      case "pause-turns":
        return dispatch({ type: "turns-paused" })
      case "set-timer":
        now += effect.ms
        return dispatch({ type: "timer", name: effect.name })
      default:
        throw new Error(`not an effect to perform: ${effect.do}`)
    }
  }

  for (const luck of seeds) {
    now += luck % 5000
    const pick = luck % 10
    if (pick < 3) {
      serial += 1
      unreplied.add(serial)
      dispatch({ type: "config-requested", plan: plan(serial, `h${luck % 4}`, `p${luck % 2}`) })
    } else if (pick === 3 && processes > 0) {
      processes = 0
      dispatch({ type: "process-lost", why: "killed" })
    } else {
      const [effect] = pending.splice(luck % Math.max(1, pending.length), 1)
      if (effect) perform(effect, luck >> 4)
    }
  }
  const performAll = (luck: number) => {
    for (let left = 1000; pending.length > 0; left -= 1) {
      if (left === 0) throw new Error("effects did not stop after 1000 steps")
      const effect = pending.shift()
      if (effect) perform(effect, luck)
    }
  }
  return {
    state: () => state,
    dispatch,
    performAll,
    unreplied,
    processes: () => processes,
    ended: () => ended,
  }
}

describe("random orders of events", () => {
  const seed = Date.now() & 0x7fff_ffff
  const histories = array(nat({ max: 1 << 20 }), { maxLength: 120, size: "max" })

  test(`random events leave at most one process, reply to every configuration and settle (seed ${seed})`, () => {
    assert(
      property(histories, (seeds) => {
        const simulated = simulate(seeds)
        simulated.performAll(9)
        const { phase, requested, running: inUse } = simulated.state()
        expect(["off", "up", "fatal"]).toContain(phase.name)
        if (phase.name === "up") expect(inUse?.hash).toBe(requested?.hash ?? "")
        if (phase.name === "up") expect(simulated.processes()).toBe(1)
        expect([...simulated.unreplied]).toEqual([])
      }),
      { seed, numRuns: 5000 },
    )
  })

  test(`a shutdown after random events leaves no process and ignores later events (seed ${seed})`, () => {
    assert(
      property(histories, (seeds) => {
        const simulated = simulate(seeds)
        simulated.dispatch({ type: "shutdown-requested" })
        simulated.performAll(9)
        expect(simulated.processes()).toBe(0)
        expect(simulated.ended()).toBe(1)
        const before = simulated.state()
        simulated.dispatch({ type: "config-requested", plan: plan(10_000) })
        expect(simulated.state()).toBe(before)
      }),
      { seed, numRuns: 5000 },
    )
  })
})

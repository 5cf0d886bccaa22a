/**
 * A simulated provider with everything that goes wrong in a real one: answers lost before or after the call was carried
 * out, late answers, doubled creates, dead replicas, sandboxes killed from outside. It checks the promises of the machine.
 */
import * as fc from "fast-check"
import type {
  Answer,
  Call,
  Life,
  LifeEffect,
  LifeEvent,
  LifePolicy,
} from "../../../src/fleet/core/life.ts"
import { isInDoubt, isLinked, isTouched } from "../../../src/fleet/core/life.ts"
import type { Capabilities, SandboxInfo } from "../../../src/fleet/providers/contract.ts"

export interface Machine {
  readonly newLife: Life
  readonly step: (
    life: Life,
    event: LifeEvent,
    policy: LifePolicy,
  ) => readonly [Life, readonly LifeEffect[]]
  readonly dueAt: (life: Life, policy: LifePolicy, at: number) => number | undefined
}

export const capabilities = (over: Partial<Capabilities>): Capabilities => ({
  supportsPause: false,
  supportsAutoPause: false,
  snapshot: "none",
  supportsMemorySnapshot: false,
  volumes: false,
  uniqueNames: true,
  limits: [],
  exec: true,
  startsRunner: true,
  maxLifeMs: undefined,
  snapshotLifeMs: undefined,
  ...over,
})

/** The six kinds of providers, by what they can do. */
export const capabilitySets: Readonly<Record<string, Capabilities>> = {
  "pause and snapshot": capabilities({ supportsPause: true, snapshot: "copy" }),
  "pause that is the snapshot, names not unique": capabilities({
    supportsPause: true,
    supportsAutoPause: true,
    snapshot: "pause",
    uniqueNames: false,
  }),
  "snapshot only, with a maximum life": capabilities({ snapshot: "copy", maxLifeMs: 3_600_000 }),
  "snapshot that stops the sandbox": capabilities({ supportsPause: true, snapshot: "stop" }),
  "snapshot without exec, names not unique": capabilities({
    snapshot: "copy",
    exec: false,
    uniqueNames: false,
  }),
  "neither pause nor snapshot": capabilities({}),
}

const policyOf = (can: Capabilities): LifePolicy => ({
  can,
  bootMs: 120_000,
  relinkMs: 60_000,
  idleMs: 900_000,
  pausedMs: can.snapshot === "copy" || can.snapshot === "pause" ? 7_200_000 : undefined,
  minimumVersion: undefined,
})

type Fault = "none" | "lost-before" | "lost-after" | "refused" | "late" | "doubled" | "ghost"

export type Action =
  | { readonly do: "want"; readonly wanted: Life["wanted"]; readonly deep: boolean }
  | { readonly do: "perform"; readonly fault: Fault }
  /** The replica dies: before its call reached the provider, after it, or while the provider still works on it. */
  | { readonly do: "replica-dies"; readonly when: "before" | "after" | "meanwhile" }
  | { readonly do: "late-answer" }
  /** `answers`: a runner without its link still answers at its gateway. */
  | { readonly do: "link"; readonly on: boolean; readonly answers: boolean }
  | { readonly do: "stray-runner" }
  | { readonly do: "work" }
  /** A person works in the sandbox, and its agent does not. */
  | { readonly do: "use" }
  | { readonly do: "idle" }
  | { readonly do: "kill" }
  | { readonly do: "auto-pause" }
  | { readonly do: "tick"; readonly seconds: number }
  | { readonly do: "list" }
  | { readonly do: "sweep" }

export const actions = (ghosts: boolean): fc.Arbitrary<readonly Action[]> => {
  const faults: readonly Fault[] = ["lost-before", "lost-after", "refused", "late", "doubled"]
  const ghost: readonly Fault[] = ghosts ? ["ghost"] : []
  const one = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("want" as const),
        // The end is final, so it is rare: most schedules have to get past it.
        wanted: fc.oneof(
          { weight: 16, arbitrary: fc.constant("running" as const) },
          { weight: 12, arbitrary: fc.constant("asleep" as const) },
          { weight: 1, arbitrary: fc.constant("ended" as const) },
        ),
        deep: fc.boolean(),
      }),
    },
    {
      weight: 12,
      arbitrary: fc.record({
        do: fc.constant("perform" as const),
        fault: fc.oneof(
          { weight: 3, arbitrary: fc.constant<Fault>("none") },
          { weight: 1, arbitrary: fc.constantFrom(...faults, ...ghost) },
        ),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("replica-dies" as const),
        when: fc.constantFrom(
          "before" as const,
          "after" as const,
          ...(ghosts ? ["meanwhile" as const] : []),
        ),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ do: "late-answer" } as const) },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant("link" as const),
        on: fc.oneof(
          { weight: 4, arbitrary: fc.constant(true) },
          { weight: 1, arbitrary: fc.constant(false) },
        ),
        answers: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ do: "stray-runner" } as const) },
    { weight: 4, arbitrary: fc.constant({ do: "work" } as const) },
    { weight: 3, arbitrary: fc.constant({ do: "use" } as const) },
    { weight: 3, arbitrary: fc.constant({ do: "idle" } as const) },
    { weight: 1, arbitrary: fc.constant({ do: "kill" } as const) },
    { weight: 1, arbitrary: fc.constant({ do: "auto-pause" } as const) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("tick" as const),
        seconds: fc.constantFrom(1, 5, 40, 61, 130, 1000, 4000),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ do: "list" } as const) },
    { weight: 2, arbitrary: fc.constant({ do: "sweep" } as const) },
  )
  return fc.array(one, { maxLength: 60, size: "max" })
}

interface Box {
  readonly ref: string
  readonly generation: number
  readonly createdAt: number
  readonly expiresAt: number | undefined
  state: "running" | "paused"
  /** Pieces of work in it. */
  work: number
  /** The part of it that a snapshot has. */
  kept: number
  linked: boolean
  /** Its runner answers at its gateway. */
  answers: boolean
  /** When its link was lost, or when it was to begin. */
  unlinkedAt: number
  busy: boolean
  /** As the hub reports it. */
  usedAt: number | undefined
}

class BrokenPromise extends Error {}

/** Runs the actions, then repairs everything and lets the machine come to rest. Throws a BrokenPromise. */
export const live = (
  machine: Machine,
  can: Capabilities,
  schedule: readonly Action[],
  final: Life["wanted"],
  options: { readonly reaper: boolean },
): void => {
  const policy = policyOf(can)
  let at = 1_000_000
  let life = machine.newLife
  let boxes: Box[] = []
  const snapshots = new Map<string, number>()
  let made = 0
  let uses = 0
  let call: { readonly number: number; readonly call: Call } | undefined
  const isLooking = () => call?.call.do === "find"
  let late: { readonly number: number; readonly call: Call; readonly answer: Answer }[] = []
  let listed: readonly SandboxInfo[] | undefined
  const generations = new Set<number>()
  let killedWithWork = false
  let told = false

  const must = (holds: boolean, promise: string) => {
    if (!holds) throw new BrokenPromise(promise)
  }
  const infoOf = ({ ref, state, generation, createdAt, expiresAt }: Box): SandboxInfo => ({
    ref,
    state,
    session: "s",
    generation,
    createdAt,
    expiresAt,
  })
  const boxOf = (ref: string | undefined) => boxes.find((box) => box.ref === ref)
  const remove = (box: Box) => {
    boxes = boxes.filter((one) => one !== box)
  }

  /** What must hold whenever a call is issued. */
  const checkIssue = (issued: Call) => {
    const box = "ref" in issued ? boxOf(issued.ref) : undefined
    const nearEnd = box?.expiresAt !== undefined && at >= box.expiresAt - 120_000
    if (issued.do === "create") {
      must(!generations.has(issued.generation), "every create has a generation of its own")
      generations.add(issued.generation)
      must(
        !boxes.some(({ work, kept }) => work > kept),
        "no sandbox is created while another one has unsaved work",
      )
    }
    if (life.wanted === "ended" || !box) return
    if (issued.do === "terminate") must(box.work <= box.kept, "unsaved work is never terminated")
    if (issued.do === "restart")
      must(
        !box.answers || at >= box.unlinkedAt + 600_000,
        "a runner that answers is not restarted before ten minutes without a link",
      )
    if (issued.do === "pause" || issued.do === "terminate")
      must(!box.busy, "a busy sandbox is neither paused nor terminated")
    if (issued.do === "prepare" || issued.do === "snapshot")
      must(!box.busy || nearEnd, "a busy sandbox is saved only before its forced end")
  }

  const feed = (event: LifeEvent) => {
    const [next, effects] = machine.step(life, event, policy)
    life = next
    for (const effect of effects) {
      if (effect.do === "note") {
        told = true
        continue
      }
      must(call === undefined, "one call at a time is under way")
      must(effect.number === life.pending?.number, "an issued call is the pending one")
      checkIssue(effect.call)
      call = effect
    }
    must(life.phase !== "ended" || life.wanted === "ended", "a life ends only if that is wanted")
  }

  const carryOut = (asked: Call): Answer => {
    if (asked.do === "create") {
      made += 1
      const kept = asked.snapshot === undefined ? 0 : (snapshots.get(asked.snapshot) ?? 0)
      const box: Box = {
        ref: `box-${made}`,
        generation: asked.generation,
        createdAt: at,
        expiresAt: can.maxLifeMs === undefined ? undefined : at + can.maxLifeMs,
        state: "running",
        work: kept,
        kept,
        linked: false,
        answers: true,
        unlinkedAt: at,
        busy: false,
        usedAt: undefined,
      }
      boxes.push(box)
      return { is: "ok", value: { ref: box.ref, expiresAt: box.expiresAt } }
    }
    if (asked.do === "find") return { is: "ok", value: { found: boxes.map(infoOf) } }
    const box = boxOf(asked.ref)
    if (!box) return asked.do === "terminate" ? { is: "ok", value: {} } : { is: "missing" }
    switch (asked.do) {
      case "probe":
        return { is: "ok", value: { info: infoOf(box), health: box.answers ? "ok" : "none" } }
      case "pause":
        // The hub does not notice: the frozen runner's socket stays open.
        box.state = "paused"
        return { is: "ok", value: {} }
      case "resume":
        box.state = "running"
        box.unlinkedAt = at
        return { is: "ok", value: {} }
      case "snapshot": {
        const id = `snap-${made}-${snapshots.size}`
        snapshots.set(id, box.work)
        box.kept = box.work
        if (can.snapshot === "stop") remove(box)
        const isPaused = can.snapshot === "copy" && can.supportsPause && asked.ends === true
        if (can.snapshot === "pause" || isPaused) box.state = "paused"
        return { is: "ok", value: { snapshot: { id }, isPaused } }
      }
      case "terminate":
        if (box.work > box.kept && life.wanted !== "ended") killedWithWork = true
        remove(box)
        return { is: "ok", value: {} }
      default:
        return { is: "ok", value: {} }
    }
  }

  const runnerSays = (box: Box) =>
    feed({
      type: "runner",
      generation: box.generation,
      linked: box.linked,
      busy: box.busy,
      usedAt: box.usedAt,
      at,
    })
  const lost = (answer: string): Answer => ({ is: "unknown", why: answer })

  const perform = (fault: Fault) => {
    const current = call
    if (!current) return
    call = undefined
    const asked = current.call
    const reply = (answer: Answer) => feed({ type: "answer", at, ...current, answer })
    switch (fault) {
      case "none":
        return reply(carryOut(asked))
      case "lost-before":
        return reply(lost("timeout"))
      case "lost-after":
        carryOut(asked)
        return reply(lost("connection cut"))
      case "refused":
        return reply({ is: "refused", why: "quota" })
      case "doubled":
        // A retry below the client's API: only names that are not unique make two sandboxes of it.
        if (asked.do === "create" && !can.uniqueNames) carryOut(asked)
        return reply(carryOut(asked))
      case "late":
        late.push({ ...current, answer: carryOut(asked) })
        return feed({ type: "lost", number: current.number, at })
      case "ghost":
        // The provider finishes the create after the look, and the answer reaches no one.
        if (asked.do !== "create") return reply(carryOut(asked))
        reply(lost("timeout"))
        if (isLooking()) perform("none")
        carryOut(asked)
    }
  }

  const replicaDies = (when: "before" | "after" | "meanwhile") => {
    const current = call
    if (!current) return
    call = undefined
    if (when === "after") carryOut(current.call)
    feed({ type: "lost", number: current.number, at })
    if (when === "meanwhile" && current.call.do === "create") {
      if (isLooking()) perform("none")
      carryOut(current.call)
    }
  }

  const answerLate = () => {
    const [first, ...rest] = late
    late = rest
    if (first) feed({ type: "answer", at, ...first })
  }

  const own = () => boxes.find(({ ref }) => ref === life.ref)
  /** Two sandboxes of one create are found before either has booted. */
  const reachable = () => {
    const twins = boxes.filter(({ generation }) => generation === life.generation)
    return twins.length === 1 ? twins.find(({ state }) => state === "running") : undefined
  }

  /** The provider ends what has reached its maximum life. */
  const expire = () => {
    for (const box of boxes.filter(({ expiresAt }) => expiresAt !== undefined && at >= expiresAt)) {
      if (box.work > box.kept) killedWithWork = true
      remove(box)
      if (box.linked)
        feed({ type: "runner", generation: box.generation, linked: false, busy: false, at })
    }
  }

  const act = (action: Action): void => {
    switch (action.do) {
      case "want":
        return feed({ type: "want", wanted: action.wanted, deep: action.deep, at })
      case "perform":
        return perform(action.fault)
      case "replica-dies":
        return replicaDies(action.when)
      case "late-answer":
        return answerLate()
      case "link": {
        const box = action.on ? reachable() : own()
        if (!box || (box.state === "paused" && action.on)) return
        if (box.linked && !action.on) {
          box.unlinkedAt = at
          box.answers = action.answers
        }
        box.linked = action.on
        if (!action.on) box.busy = false
        return runnerSays(box)
      }
      case "stray-runner":
        return feed({
          type: "runner",
          generation: life.generation - 1,
          linked: true,
          busy: false,
          at,
        })
      case "work": {
        const box = boxes.find(({ linked, state }) => linked && state === "running")
        if (!box || box.generation !== life.generation) return
        box.work += 1
        box.busy = true
        return runnerSays(box)
      }
      case "use": {
        const box = boxes.find(({ linked, state }) => linked && state === "running")
        if (!box || box.generation !== life.generation) return
        box.work += 1
        uses += 1
        box.usedAt = uses
        return runnerSays(box)
      }
      case "idle": {
        const box = boxes.find(({ busy }) => busy)
        if (!box) return
        box.busy = false
        return runnerSays(box)
      }
      case "kill": {
        const [box] = boxes
        if (!box) return
        if (box.work > box.kept) killedWithWork = true
        remove(box)
        if (box.linked)
          feed({ type: "runner", generation: box.generation, linked: false, busy: false, at })
        return
      }
      case "auto-pause": {
        const box = own()
        if (!can.supportsAutoPause || !box || box.busy) return
        box.state = "paused"
        box.linked = false
        return runnerSays(box)
      }
      case "tick":
        at += action.seconds * 1000
        expire()
        return feed({ type: "due", at })
      case "list":
        listed = boxes.map(infoOf)
        return
      case "sweep": {
        if (!options.reaper) return
        const found = listed ?? boxes.map(infoOf)
        listed = undefined
        return feed({ type: "seen", found, at })
      }
    }
  }

  for (const action of schedule) act(action)

  // From here on nothing fails. The machine has to come to rest in the wanted state.
  while (late.length > 0) answerLate()
  for (const box of boxes) {
    box.busy = false
    if (box.generation === life.generation) runnerSays(box)
  }
  if (life.wanted !== "ended") feed({ type: "want", wanted: final, at })
  for (let round = 0; round < 120; round++) {
    if (call) perform("none")
    const running = reachable()
    if (running && !running.linked) {
      running.linked = true
      runnerSays(running)
    }
    if (!call) {
      // The prompt still waits: the hub repeats what it wants.
      if (life.wanted !== "ended" && final === "running") feed({ type: "want", wanted: final, at })
      const due = machine.dueAt(life, policy, at)
      if (due !== undefined && (life.retryAt !== undefined || life.phase === "booting")) {
        at = Math.max(at, due)
        expire()
        feed({ type: "due", at })
      }
      if (options.reaper && !call) feed({ type: "seen", found: boxes.map(infoOf), at })
    }
  }

  must(call === undefined && life.pending === undefined, "the machine comes to rest")
  must(life.doomed.length === 0, "strays are terminated")
  must(!isInDoubt(life), "a doubt is resolved")
  if (life.wanted === "ended") {
    must(life.phase === "ended", "a life that is to end ends")
    return must(boxes.length === 0, "no sandbox is left after the end")
  }
  must(boxes.length <= 1, "a session has at most one sandbox")
  const [box] = boxes
  // Without a sweep a paused sandbox that was killed is noticed when it is wanted again.
  const unnoticed = !options.reaper && !box && life.phase === "paused"
  must(!killedWithWork || told || unnoticed, "lost work is reported in the conversation")
  must(unnoticed || box?.ref === life.ref, "the machine knows the sandbox that exists")
  if (final === "running") {
    must(life.phase === "running" && box?.state === "running", "a wanted sandbox runs")
    must(box?.linked === true && isLinked(life), "its runner is connected")
  } else {
    const canSleep = can.supportsPause || can.snapshot !== "none"
    if (canSleep) must(!box || box.state === "paused", "an unwanted sandbox sleeps")
    else must(!box || box.work > 0 || isTouched(life), "an unused sandbox does not stay")
  }
}

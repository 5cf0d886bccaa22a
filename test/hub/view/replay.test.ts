/** The reducer against the real session: random turns, cuts, resumed and repeated events end in the session's snapshot. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { step } from "../../../src/hub/view/step.ts"
import { emptyView, type HubEvent, type View } from "../../../src/hub/view/view.ts"
import type { Snapshot } from "../../../src/wire/clients/conversation.ts"
import { type Core, createCore } from "../kit/core.ts"

type Play =
  | { readonly do: "prompt"; readonly channel: number }
  | {
      readonly do: "text" | "reasoning"
      readonly channel: number
      readonly part: number
      readonly text: string
    }
  | {
      readonly do: "tool"
      readonly channel: number
      readonly call: number
      readonly status: number
    }
  | {
      readonly do: "todo" | "ask" | "answer" | "usage" | "end" | "fail" | "retry"
      readonly channel: number
    }
  | { readonly do: "revert"; readonly channel: number }
  /** The client misses the events from here on, until it resumes. */
  | { readonly do: "cut" }
  | { readonly do: "resume" }
  /** The client resumes from an older cursor: it gets events that it has applied already. */
  | { readonly do: "repeat"; readonly back: number }
  /** The same event is applied twice. */
  | { readonly do: "double" }
  | { readonly do: "wait" }

const channel = fc.nat({ max: 1 })
const plays: fc.Arbitrary<Play> = fc.oneof(
  fc.record({ do: fc.constant("prompt" as const), channel }),
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("text" as const, "reasoning" as const),
      channel,
      part: fc.nat({ max: 2 }),
      text: fc.string({ minLength: 1, maxLength: 8, unit: "binary" }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("tool" as const),
      channel,
      call: fc.nat({ max: 2 }),
      status: fc.nat({ max: 3 }),
    }),
  },
  fc.record({
    do: fc.constantFrom("todo", "ask", "answer", "usage", "end", "fail", "retry", "revert"),
    channel,
  }),
  fc.record({ do: fc.constant("repeat" as const), back: fc.nat({ max: 12 }) }),
  {
    weight: 4,
    arbitrary: fc.constantFrom<Play>(
      { do: "cut" },
      { do: "resume" },
      { do: "double" },
      { do: "wait" },
    ),
  },
)

/** A client with the reducer, connected to the session. */
const createClient = (core: Core) => {
  let view = emptyView
  let isConnected = false
  let read = 0
  let subscriptions = 0
  const apply = (event: HubEvent) => {
    view = step(view, { type: "event", event })
  }
  const events = () => core.broadcasts as unknown as readonly HubEvent[]
  /** Takes what was broadcast since the last call, unless the client is cut off. */
  const take = () => {
    if (isConnected) for (const event of events().slice(read)) apply(event)
    read = events().length
  }
  const subscribe = (cursor: number | undefined) => {
    take()
    subscriptions += 1
    const connection = `client-${subscriptions}`
    core.session.clients.subscribe(connection, { cursor })
    // The session writes and broadcasts buffered text before it answers.
    take()
    for (const event of core.sent(connection)) apply(event as unknown as HubEvent)
    isConnected = true
  }
  return {
    view: () => view,
    take,
    subscribe: () => subscribe(view.cursor),
    repeat: (back: number) => subscribe(Math.max(0, (view.cursor ?? 0) - back)),
    cut: () => {
      take()
      isConnected = false
    },
    double: () => {
      take()
      const last = events().at(-1)
      if (isConnected && last) apply(last)
    },
  }
}

const perform = (
  core: Core,
  play: Play,
  client: ReturnType<typeof createClient>,
  run: Run,
): void => {
  switch (play.do) {
    case "cut":
      return client.cut()
    case "resume":
      return client.subscribe()
    case "repeat":
      return client.repeat(play.back)
    case "double":
      return client.double()
    case "wait":
      return core.clock.advance(1000)
    case "prompt":
      core.session.clients.request(
        {
          type: "prompt",
          content: `prompt ${run.next()}`,
          clientRequestId: `r${run.next()}`,
          channelType: "web",
          channelId: String(play.channel),
        },
        "a person",
      )
      return
    default:
      return runnerStep(core, play, run)
  }
}

interface Run {
  readonly seq: () => number
  readonly next: () => number
  /** The turn of each channel's running prompt. */
  readonly turns: Map<
    number,
    { readonly prompt: string; readonly turn: string; readonly parts: Set<string> }
  >
}

const STATUSES = ["pending", "running", "completed", "error"] as const

const runnerStep = (
  core: Core,
  play: Exclude<Play, { do: "cut" | "resume" | "repeat" | "double" | "wait" | "prompt" }>,
  run: Run,
): void => {
  const address = { channelType: "web", channelId: String(play.channel) }
  const say = (frame: object) => core.receive("runner", { ...frame, seq: run.seq() })
  const running = core.session
    .snapshot()
    .queue.find(({ channel: key, status }) => key === `web:${play.channel}` && status !== "queued")
  if (!running) return
  const known = run.turns.get(play.channel)
  const fresh = known?.prompt === running.id ? known : undefined
  const turn = fresh ?? { prompt: running.id, turn: `t${run.next()}`, parts: new Set<string>() }
  run.turns.set(play.channel, turn)
  const origin = { ...address, messageId: turn.prompt, turnId: turn.turn }
  if (!fresh) say({ type: "message.create", ...origin })
  switch (play.do) {
    case "text":
    case "reasoning": {
      const partId = `${play.do}-${play.part}`
      turn.parts.add(partId)
      return say({ type: `message.part.${play.do}-delta`, ...origin, partId, delta: play.text })
    }
    case "tool":
      return say({
        type: "message.part.tool-update",
        ...origin,
        callId: `call-${play.call}`,
        toolName: "bash",
        status: STATUSES[play.status] ?? "pending",
        args: { command: "true" },
      })
    case "todo":
      return say({ type: "todo", ...origin, items: [] })
    case "usage":
      return say({
        type: "usage",
        ...origin,
        model: "m",
        input: 1,
        output: 2,
        reasoning: 0,
        cacheRead: 0,
        cacheWrite: 0,
      })
    case "ask":
      return say({
        type: "question",
        ...address,
        messageId: turn.prompt,
        questionId: `q${run.next()}`,
        text: "which?",
      })
    case "answer": {
      const [question] = core.session.snapshot().interactions
      if (question)
        core.session.clients.request({ type: "answer", id: question.id, answer: "one" }, "a person")
      return
    }
    case "retry": {
      const droppedParts = [...turn.parts]
      turn.parts.clear()
      return say({ type: "retry", ...origin, attempt: 1, next: 1, message: "busy", droppedParts })
    }
    case "revert":
      return say({ type: "reverted", messageIds: [turn.prompt] })
    case "end":
    case "fail":
      say({
        type: "message.finalize",
        ...origin,
        ...(play.do === "end" ? { reason: "end_turn" } : { reason: "error", error: "failed" }),
      })
      say({ type: "complete", ...address, messageId: turn.prompt })
  }
}

const byKey = <Item>(items: readonly Item[], keyOf: (item: Item) => string) =>
  items.toSorted((a, b) => keyOf(a).localeCompare(keyOf(b)))

/** The view in the form of a snapshot. */
const asSnapshot = (view: View): Partial<Snapshot> => ({
  rev: view.cursor ?? 0,
  messages: view.order.flatMap((id) => view.messages.get(id) ?? []),
  queue: view.queue,
  interactions: view.interactions,
  artifacts: view.artifacts,
  usage: view.usage,
  state: view.state,
  channels: byKey(view.channels, ({ key }) => key),
})

test("a client that is cut off, resumes and gets events twice ends with the session's snapshot", () => {
  fc.assert(
    fc.property(fc.array(plays, { minLength: 1, maxLength: 60 }), (steps) => {
      const core = createCore()
      const client = createClient(core)
      let ids = 0
      let seq = core.connectRunner("runner")
      const run: Run = { next: () => (ids += 1), seq: () => seq++, turns: new Map() }
      client.subscribe()
      for (const play of steps) perform(core, play, client, run)
      client.subscribe()
      const expected = core.session.snapshot()
      const shown = client.view()
      expect(shown.gap).toBe(false)
      expect(asSnapshot(shown)).toEqual({
        rev: expected.rev,
        messages: expected.messages,
        queue: expected.queue,
        interactions: expected.interactions,
        artifacts: expected.artifacts,
        usage: expected.usage,
        state: expected.state,
        channels: byKey(expected.channels, ({ key }) => key),
      })
    }),
    { numRuns: 150 },
  )
})

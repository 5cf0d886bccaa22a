/** One channel: a queue, and at most one turn at work, unless a prompt steers it. */
import { AgentCallError } from "../opencode/client/client.ts"
import type { AgentEvent } from "../opencode/events/events.ts"
import { describeError } from "../../lib/log.ts"
import type { Outbound } from "../../wire/frames/index.ts"
import { changedTurn, restoreTurn } from "../turn/turn-record.ts"
import { answerText } from "../turn/text.ts"
import { newTurn, type Outcome, type Turn, turnIdOf } from "../turn/turn.ts"
import { chooseSession } from "./agent-sessions.ts"
import { type ChannelAddress, keyOf } from "../../wire/channel.ts"
import type { ChannelPorts, ReadyAgent } from "./channels.ts"
import type { StoredJob } from "./job-store.ts"
import { type Job, jobId } from "./jobs.ts"
import { type Posting, type RunningTurn, runTurn } from "./turn-effects.ts"
import { makeReady } from "./prepare-job.ts"
import { untilAnswering } from "./wait-until-healthy.ts"
import { commandResult, endUnstarted } from "./end-without-turn.ts"

/** Of a job that an OpenCode which is well leaves without an answer. */
const MOST_TRIES = 2

/** The signal is a stop of the channel, with its reason. */
export type Work<Result> = (
  agent: ReadyAgent,
  sessionId: string | undefined,
  signal: AbortSignal,
) => Promise<Result>

/** Something other than a turn that needs the channel to itself. */
interface Chore {
  readonly run: Work<void>
  readonly fail: (error: Error) => void
}

/** `tries` is how often a job was begun and nobody answered. */
type Waiting = { readonly job: Job; readonly tries: number } | { readonly chore: Chore }

/** What is at work: a job that is made ready, then its turn; or a chore. */
interface Slot {
  readonly job: Job | undefined
  readonly stopping: AbortController
  turn: RunningTurn | undefined
  /** The end of a chore. */
  over: Promise<void> | undefined
}

type StoredTurn = Extract<StoredJob, { state: "running" }>

export interface Channel {
  readonly key: string
  readonly address: ChannelAddress
  readonly add: (job: Job) => void
  /** Waits for its place in the queue and holds the channel while it runs. */
  readonly exclusively: <Result>(work: Work<Result>) => Promise<Result>
  /** Ends what waits and what runs; resolves when nothing of it runs any more. */
  readonly stop: (reason: string) => Promise<void>
  readonly turns: () => readonly RunningTurn[]
  readonly hear: (event: AgentEvent) => void
  readonly restore: (stored: StoredJob) => void
  readonly agentReady: (agent: ReadyAgent) => void
  readonly active: () => Outbound<"hello">["active"]
  readonly isBusy: () => boolean
  /** Something is at work now; what only waits does not count. */
  readonly isAtWork: () => boolean
  /** Takes up what waits, if it may. */
  readonly goOn: () => void
  readonly waits: (id: string) => boolean
}

export const createChannel = (address: ChannelAddress, ports: ChannelPorts): Channel => {
  const { jobs, ledger, send, log, clock } = ports
  const key = keyOf(address)
  const queue: Waiting[] = []
  /** Turns of an earlier life, until there is an OpenCode to go on with. */
  let held: { readonly stored: StoredTurn; stop: string | undefined }[] = []
  let slots: readonly Slot[] = []
  /** What was said last came to its end, and this runner saw it. */
  let isWhole = false

  const turns = () => slots.flatMap(({ turn }) => turn ?? [])
  const isBusy = () => slots.length > 0 || queue.length > 0 || held.length > 0

  const open = (job: Job | undefined): Slot => {
    const slot: Slot = { job, stopping: new AbortController(), turn: undefined, over: undefined }
    slots = [...slots, slot]
    return slot
  }
  const close = (slot: Slot): void => {
    slots = slots.filter((other) => other !== slot)
    drain()
  }

  const drain = (): void => {
    const agent = ports.agent()
    if (slots.length > 0 || held.length > 0 || !agent) return
    if (ports.isPaused()) return ports.onIdle()
    const next = queue.shift()
    if (!next) return ports.onIdle()
    if ("job" in next) return void run(next, agent, undefined)
    const slot = open(undefined)
    const { signal } = slot.stopping
    // Stopped, refused or gone with its OpenCode, it may leave something half done.
    isWhole = false
    slot.over = next.chore
      .run(agent, ports.sessions.sessionOf(key), signal)
      .finally(() => close(slot))
  }

  const run = async (
    { job, tries }: { readonly job: Job; readonly tries: number },
    agent: ReadyAgent,
    steered: RunningTurn | undefined,
  ) => {
    const slot = open(job)
    const { signal } = slot.stopping
    try {
      const sessionId = steered?.identity.sessionId ?? (await ensureSession(job, agent))
      const prepared = await makeReady(job, agent, sessionId, ports, signal)
      if (signal.aborted) return
      const identity = {
        promptId: jobId(job),
        turnId: crypto.randomUUID(),
        ...address,
        sessionId,
        userMessageId: prepared.userMessageId,
      }
      const joins = steered !== undefined && steered.now().phase !== "ended"
      const turn = newTurn(identity, { ...ports.settings, models: prepared.models, joins })
      const saved = changedTurn(turn, undefined)
      if (saved) jobs.started(jobId(job), prepared.posting, saved)
      const running = launch(slot, job, turn, prepared.posting, agent)
      if (joins) steered.tell({ type: "overtaken", userMessageId: identity.userMessageId })
      running.tell({ type: "start" })
    } catch (error) {
      const isCurrent = () => ports.agent() === agent && !signal.aborted
      const isUnanswered = error instanceof AgentCallError && error.status === undefined
      // A death shows in calls before it is told.
      if (isUnanswered) await untilAnswering(agent.client, isCurrent, clock)
      if (signal.aborted) return
      // Nothing was begun: the next OpenCode takes the job up, or this one, which answers again.
      const isLost = ports.agent() !== agent
      if (isLost || (isUnanswered && tries < MOST_TRIES))
        queue.unshift({ job, tries: isLost ? 0 : tries + 1 })
      else finish(job, { type: "error", error: describeError(error) })
      close(slot)
    }
  }

  const launch = (
    slot: Slot,
    job: Job,
    turn: Turn,
    posting: Posting,
    agent: ReadyAgent,
  ): RunningTurn => {
    const running = runTurn({
      turn,
      posting,
      client: agent.client,
      clock,
      log,
      send,
      onChange: (changed) => ledger.turnChanged(jobId(job), changed),
      onEnded: (outcome) => {
        const ended = running.now()
        const answer = answerText(ended.texts)
        isWhole = outcome.type === "ok"
        for (const frame of commandResult(job, outcome, answer)) send(frame)
        ledger.ended(jobId(job), outcome)
        ports.onJobEnded(job, outcome, answer)
        ports.onTurnEnded(ended, agent)
        close(slot)
      },
    })
    slot.turn = running
    ports.listen(turn.identity.sessionId, channel)
    return running
  }

  const ensureSession = async (job: Job, { client }: ReadyAgent): Promise<string> => {
    const named = job.type === "prompt" ? job.opencodeSessionId : undefined
    const known = ports.sessions.sessionOf(key)
    const { sessionId, isNew } = await chooseSession(client, clock, [named, known], {
      isWhole: isWhole && (named === undefined || named === known),
    })
    if (isNew)
      send({ type: "channel-session-created", channelKey: key, opencodeSessionId: sessionId })
    if (known !== sessionId) ports.sessions.setSession(key, sessionId)
    return sessionId
  }

  /** The end of a job that never became a turn. */
  const finish = (job: Job, outcome: Outcome): void => {
    for (const frame of endUnstarted(job, address, outcome)) send(frame)
    for (const frame of commandResult(job, outcome, undefined)) send(frame)
    ledger.ended(jobId(job), outcome)
    ports.onJobEnded(job, outcome, undefined)
  }

  const steerable = (job: Job): RunningTurn | undefined => {
    const isSteering = job.type === "prompt" && job.steer === true
    return isSteering && ports.agent() ? turns().at(-1) : undefined
  }

  const stop = async (reason: string): Promise<void> => {
    const canceled = { type: "canceled", reason } as const
    for (const waiting of queue.splice(0)) {
      if ("job" in waiting) finish(waiting.job, canceled)
      else waiting.chore.fail(new Error(reason))
    }
    for (const slot of slots.filter(({ turn, job }) => !turn && job)) {
      slot.stopping.abort()
      if (slot.job) finish(slot.job, canceled)
      close(slot)
    }
    const chores = slots.filter(({ over }) => over !== undefined)
    for (const { stopping: chore } of chores) chore.abort(new Error(reason))
    for (const entry of held) entry.stop ??= reason
    const stopping = turns()
    for (const turn of stopping) turn.tell({ type: "stop", reason })
    await Promise.all([...stopping.map((turn) => turn.ended), ...chores.map(({ over }) => over)])
  }

  const resume = (agent: ReadyAgent): void => {
    const resumed = held
    held = []
    for (const { stored, stop: reason } of resumed) {
      const turn = restoreTurn(stored.turn, stored.texts)
      const running = launch(open(stored.job), stored.job, turn, stored.posting, agent)
      for (const child of turn.children) ports.listen(child, channel)
      running.tell({ type: "resume" })
      if (reason !== undefined) running.tell({ type: "stop", reason })
    }
  }

  const idsWaiting = () => [
    ...slots.flatMap(({ job, turn }) => (job && !turn ? [jobId(job)] : [])),
    ...queue.flatMap((waiting) => ("job" in waiting ? [jobId(waiting.job)] : [])),
  ]

  const channel: Channel = {
    key,
    address,
    add: (job) => {
      const steered = steerable(job)
      const agent = ports.agent()
      if (steered && agent) return void run({ job, tries: 0 }, agent, steered)
      queue.push({ job, tries: 0 })
      drain()
    },
    exclusively: (work) =>
      new Promise((resolve, reject) => {
        const chore: Chore = {
          run: (...given) => work(...given).then(resolve, reject),
          fail: reject,
        }
        queue.push({ chore })
        drain()
      }),
    stop,
    turns,
    // A sub-agent works for the turn that was there first: one that steers has not begun its own work yet.
    hear: (event) => {
      if (!("agentSessionId" in event)) return
      const own = turns().filter(({ identity }) => identity.sessionId === event.agentSessionId)
      const told = own.length > 0 ? own : turns().slice(0, 1)
      for (const turn of told) turn.tell({ type: "agent", event })
    },
    restore: (stored) => {
      if (stored.state === "queued") queue.push({ job: stored.job, tries: 0 })
      else held.push({ stored, stop: undefined })
    },
    agentReady: (agent) => {
      resume(agent)
      drain()
    },
    active: () => [
      ...held.map(({ stored }) => activeTurn(stored.turn)),
      ...turns().map((turn) => activeTurn(turn.now())),
      ...idsWaiting().map((messageId) => ({ messageId, channelKey: key })),
    ],
    isBusy,
    isAtWork: () => slots.length > 0,
    goOn: drain,
    waits: (id) => idsWaiting().includes(id),
  }

  const activeTurn = (turn: Pick<Turn, "identity" | "attempt">) => ({
    messageId: turn.identity.promptId,
    channelKey: key,
    turnId: turnIdOf(turn),
    opencodeSessionId: turn.identity.sessionId,
  })

  return channel
}

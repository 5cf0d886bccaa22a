/** One channel: a queue, and at most one running turn, or two while a prompt steers the running turn. */
import { AgentCallError } from "../opencode/client/client.ts"
import type { AgentEvent } from "../opencode/events/events.ts"
import { describeError } from "../../lib/log.ts"
import type { Outbound } from "../../wire/frames/index.ts"
import { changedTurn, restoreTurn } from "../turn/turn-record.ts"
import { answerText } from "../turn/text.ts"
import { newTurn, type Outcome, type Turn, turnIdOf } from "../turn/turn.ts"
import { chooseAgentSession } from "./agent-sessions.ts"
import { createForeignTurns } from "./foreign-turns.ts"
import { type ChannelAddress, channelKey } from "../../wire/channel.ts"
import type { ChannelPorts, ReadyAgent } from "./channels.ts"
import type { StoredJob } from "./job-store.ts"
import { type Job, jobId } from "./jobs.ts"
import { type Posting, type RunningTurn, runTurn } from "./turn-effects.ts"
import { createSlots, type Slot } from "./slots.ts"
import { prepareJob } from "./prepare-job.ts"
import { waitUntilHealthy } from "./wait-until-healthy.ts"
import { commandResult, endWithoutTurn } from "./end-without-turn.ts"

/** How often a job is started again when a healthy OpenCode gives no response to its calls. */
const MAX_TRIES = 2

/** Work that needs the channel to itself. The signal is aborted, with the reason, when the channel is stopped. */
export type Work<Result> = (
  agent: ReadyAgent,
  agentSessionId: string | undefined,
  signal: AbortSignal,
) => Promise<Result>

interface ExclusiveWork {
  readonly run: Work<void>
  readonly fail: (error: Error) => void
}

/** `tries` counts how often the job was started and OpenCode gave no response. */
type QueueEntry = { readonly job: Job; readonly tries: number } | { readonly work: ExclusiveWork }

/** A turn of an earlier process of the runner, with the reason of a stop that arrived before it was resumed. */
interface InterruptedTurn {
  readonly stored: Extract<StoredJob, { state: "running" }>
  readonly turn: Turn
  stopReason: string | undefined
}

export interface Channel {
  readonly key: string
  readonly enqueue: (job: Job) => void
  /** Another client of OpenCode works in this agent session: shows its turn, unless the channel is at work itself. */
  readonly follow: (agentSessionId: string, userMessageId?: string) => Promise<void>
  /** Shows foreign turns of this agent session whose events were missed, also those that have ended. */
  readonly showMissed: (agentSessionId: string) => Promise<void>
  /** Queues the work; while it runs, no turn runs on the channel. */
  readonly runExclusively: <Result>(work: Work<Result>) => Promise<Result>
  /**
   * Cancels queued and running jobs; resolves when all of them have ended. With `keepForeign`, a foreign turn goes on if
   * there were others.
   */
  readonly stop: (reason: string, keepForeign?: boolean) => Promise<void>
  readonly turns: () => readonly RunningTurn[]
  readonly onEvent: (event: AgentEvent) => void
  readonly restore: (stored: StoredJob) => void
  readonly agentReady: (agent: ReadyAgent) => void
  readonly active: () => Outbound<"hello">["active"]
  /** A job or exclusive work is running or queued. */
  readonly isBusy: () => boolean
  /** Like `isBusy`, without what is only queued. */
  readonly isRunning: () => boolean
  /** Starts the next queued entry, unless something runs, turns are paused or OpenCode is not ready. */
  readonly startNext: () => void
}

export const createChannel = (address: ChannelAddress, ports: ChannelPorts): Channel => {
  const { jobs, persistence, send, log, clock } = ports
  const key = channelKey(address)
  const queue: QueueEntry[] = []
  /** Interrupted turns, until OpenCode is ready to resume them. */
  let toResume: InterruptedTurn[] = []
  /** True if the last turn finished cleanly in this process. */
  let lastTurnFinishedCleanly = false

  const slots = createSlots(() => startNext())
  const { turns } = slots
  const isBusy = () => slots.all().length > 0 || queue.length > 0 || toResume.length > 0

  const startNext = (): void => {
    const agent = ports.agent()
    if (slots.all().length > 0 || toResume.length > 0 || !agent) return
    if (foreignTurns.showUnseen(agent)) return
    if (ports.isPaused()) return ports.onIdle()
    const next = queue.shift()
    if (!next) return ports.onIdle()
    if ("job" in next) return void run(next, agent, undefined)
    const slot = slots.open(undefined)
    const { signal } = slot.stopping
    // Exclusive work that fails or is stopped may leave an unfinished compaction behind.
    lastTurnFinishedCleanly = false
    slot.workEnded = next.work
      .run(agent, ports.sessions.agentSessionOf(key), signal)
      .finally(() => slots.close(slot))
  }

  const run = async (
    { job, tries }: { readonly job: Job; readonly tries: number },
    agent: ReadyAgent,
    steered: RunningTurn | undefined,
  ) => {
    const slot = slots.open(job)
    const { signal } = slot.stopping
    try {
      const choice = steered?.identity ?? (await ensureSession(job, agent, signal))
      if (signal.aborted) return
      if ("foreign" in choice) {
        queue.unshift({ job, tries })
        return foreignTurns.followIn(slot, agent, choice.agentSessionId, choice.foreign)
      }
      const { agentSessionId } = choice
      const prepared = await prepareJob(job, agent, agentSessionId, ports, signal)
      if (signal.aborted) return
      const identity = {
        promptId: jobId(job),
        turnId: crypto.randomUUID(),
        ...address,
        agentSessionId,
        userMessageId: prepared.userMessageId,
      }
      const joins = steered !== undefined && steered.state().phase !== "ended"
      const turn = newTurn(identity, { ...ports.settings, models: prepared.models, joins })
      const saved = changedTurn(turn, undefined)
      if (saved) jobs.started(jobId(job), prepared.posting, saved)
      const running = launch(slot, job, turn, prepared.posting, agent)
      if (joins) steered.dispatch({ type: "steered", userMessageId: identity.userMessageId })
      running.dispatch({ type: "start" })
    } catch (error) {
      const isCurrent = () => ports.agent() === agent && !signal.aborted
      const gotNoResponse = error instanceof AgentCallError && error.status === undefined
      // Calls to a dead OpenCode fail before the supervisor reports its death.
      if (gotNoResponse) await waitUntilHealthy(agent.client, isCurrent, clock)
      if (signal.aborted) return
      // The job was not posted, so it can be started again: by the next OpenCode, or by this one if it recovered.
      const isAgentReplaced = ports.agent() !== agent
      if (isAgentReplaced || (gotNoResponse && tries < MAX_TRIES))
        queue.unshift({ job, tries: isAgentReplaced ? 0 : tries + 1 })
      else endJobWithoutTurn(job, { type: "error", error: describeError(error) })
      slots.close(slot)
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
      onChange: (changed) => persistence.turnChanged(jobId(job), changed),
      onEnded: (outcome) => {
        const ended = running.state()
        const answer = answerText(ended.texts)
        lastTurnFinishedCleanly = outcome.type === "ok"
        jobs.adopted(ended.parentIds.filter((id) => id !== ended.identity.userMessageId))
        for (const frame of commandResult(job, outcome, answer)) send(frame)
        persistence.ended(jobId(job), outcome)
        ports.onJobEnded(job, outcome, answer)
        ports.onTurnEnded(ended, agent)
        slots.close(slot)
      },
    })
    slot.turn = running
    ports.subscribe(turn.identity.agentSessionId, channel)
    return running
  }

  const foreignTurns = createForeignTurns({ address, ports, slots, isBusy, startNext, launch })

  const ensureSession = async (job: Job, { client }: ReadyAgent, signal: AbortSignal) => {
    const named = job.type === "prompt" ? job.opencodeSessionId : undefined
    const known = ports.sessions.agentSessionOf(key)
    const choice = await chooseAgentSession(client, clock, [named, known], {
      lastTurnFinishedCleanly: lastTurnFinishedCleanly && (named === undefined || named === known),
      isOwn: jobs.hasUserMessage,
      signal,
    })
    const { agentSessionId } = choice
    if ("isNew" in choice && choice.isNew)
      send({ type: "channel-session-created", channelKey: key, opencodeSessionId: agentSessionId })
    if (known !== agentSessionId) ports.sessions.setAgentSession(key, agentSessionId)
    return choice
  }

  const endJobWithoutTurn = (job: Job, outcome: Outcome): void => {
    for (const frame of endWithoutTurn(job, address, outcome)) send(frame)
    for (const frame of commandResult(job, outcome, undefined)) send(frame)
    persistence.ended(jobId(job), outcome)
    ports.onJobEnded(job, outcome, undefined)
  }

  const turnToSteer = (job: Job): RunningTurn | undefined => {
    const isSteering = job.type === "prompt" && job.steer === true
    return isSteering && ports.agent() ? turns().at(-1) : undefined
  }

  const stop = async (reason: string, keepForeign = false): Promise<void> => {
    const isForeign = (turn: RunningTurn) => turn.state().settings.observed === true
    const hasOwn = queue.length > 0 || slots.all().some(({ turn }) => !turn || !isForeign(turn))
    const canceled = { type: "canceled", reason } as const
    for (const entry of queue.splice(0)) {
      if ("job" in entry) endJobWithoutTurn(entry.job, canceled)
      else entry.work.fail(new Error(reason))
    }
    for (const slot of slots.all().filter(({ turn, job }) => !turn && job)) {
      slot.stopping.abort()
      if (slot.job) endJobWithoutTurn(slot.job, canceled)
      slots.close(slot)
    }
    const exclusive = slots.all().filter(({ workEnded }) => workEnded !== undefined)
    for (const { stopping } of exclusive) stopping.abort(new Error(reason))
    for (const interrupted of toResume) interrupted.stopReason ??= reason
    const stopped = turns().filter((turn) => !(keepForeign && hasOwn && isForeign(turn)))
    for (const turn of stopped) turn.dispatch({ type: "stop", reason })
    await Promise.all([
      ...stopped.map((turn) => turn.ended),
      ...exclusive.map(({ workEnded }) => workEnded),
    ])
  }

  const resume = (agent: ReadyAgent): void => {
    const resumed = toResume
    toResume = []
    for (const { stored, turn, stopReason } of resumed) {
      const running = launch(slots.open(stored.job), stored.job, turn, stored.posting, agent)
      for (const child of turn.children) ports.subscribe(child, channel)
      running.dispatch({ type: "resume" })
      if (stopReason !== undefined) running.dispatch({ type: "stop", reason: stopReason })
    }
  }

  const waitingIds = () => [
    ...slots.all().flatMap(({ job, turn }) => (job && !turn ? [jobId(job)] : [])),
    ...queue.flatMap((entry) => ("job" in entry ? [jobId(entry.job)] : [])),
  ]

  const channel: Channel = {
    key,
    enqueue: (job) => {
      const steered = turnToSteer(job)
      const agent = ports.agent()
      if (steered && agent) return void run({ job, tries: 0 }, agent, steered)
      queue.push({ job, tries: 0 })
      startNext()
    },
    runExclusively: (work) =>
      new Promise((resolve, reject) => {
        const exclusive: ExclusiveWork = {
          run: (...context) => work(...context).then(resolve, reject),
          fail: reject,
        }
        queue.push({ work: exclusive })
        startNext()
      }),
    follow: foreignTurns.follow,
    showMissed: foreignTurns.showMissed,
    stop,
    turns,
    // Events of a sub-agent belong to the first turn: a turn that steers it has not started its own work yet.
    onEvent: (event) => {
      if (!("agentSessionId" in event)) return
      const own = turns().filter(({ identity }) => identity.agentSessionId === event.agentSessionId)
      const receivers = own.length > 0 ? own : turns().slice(0, 1)
      for (const turn of receivers) turn.dispatch({ type: "agent", event })
    },
    restore: (stored) => {
      if (stored.state === "queued") queue.push({ job: stored.job, tries: 0 })
      else {
        const turn = restoreTurn(stored.turn, stored.texts)
        toResume.push({ stored, turn, stopReason: undefined })
      }
    },
    agentReady: (agent) => {
      resume(agent)
      startNext()
    },
    active: () => [
      ...toResume.map(({ turn }) => activeTurn(turn)),
      ...turns().map((turn) => activeTurn(turn.state())),
      ...waitingIds().map((messageId) => ({ messageId, channelKey: key })),
    ],
    isBusy,
    isRunning: () => slots.all().length > 0,
    startNext,
  }

  const activeTurn = (turn: Pick<Turn, "identity" | "attempt">) => ({
    messageId: turn.identity.promptId,
    channelKey: key,
    turnId: turnIdOf(turn),
    opencodeSessionId: turn.identity.agentSessionId,
  })

  return channel
}

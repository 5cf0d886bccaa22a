/**
 * All channels of the runner. Each channel has its own agent session and its own queue; channels run concurrently.
 * OpenCode's events are routed to a channel by the agent session that they name.
 */
import type { AgentClient } from "../opencode/client/client.ts"
import type { AgentEvent } from "../opencode/events/events.ts"
import type { MintId, PromptBody, ProviderModels } from "../opencode/client/types.ts"
import { type Clock, within } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { Inbound, Outbound, OutboundFrame } from "../../wire/frames/index.ts"
import { type Outcome, type Turn, turnIdOf, type TurnSettings } from "../turn/turn.ts"
import type { PermissionReply } from "../../wire/permission.ts"
import type { ChannelStore } from "./agent-sessions.ts"
import { createJobWaiters, type JobReport } from "./job-waiters.ts"
import { type Channel, createChannel, type Work } from "./channel.ts"
import { channelAddress, type ChannelAddress, channelKey } from "../../wire/channel.ts"
import { createEventRouter, type Listener } from "./event-routing.ts"
import type { JobStore } from "./job-store.ts"
import { type Job, jobAddress, jobId } from "./jobs.ts"
import { createTurnPersistence, type TurnPersistence } from "./turn-persistence.ts"
import { createPrivateTurns, type PrivateTurns } from "./private-turn.ts"
import { type JobState, duplicateJobFrames } from "./duplicate-job.ts"
import { createSummaries, type Summaries } from "./wait-for-summary.ts"

/** OpenCode when prompts can run: healthy, configured, and with its event stream subscribed. */
export interface ReadyAgent {
  readonly client: AgentClient
  readonly defaultModel: string | undefined
  /** The providers that OpenCode is connected to, with their models. */
  readonly models?: readonly ProviderModels[]
}

/** Prepares a prompt for OpenCode: fetches and reads its attachments, chooses its models. */
export type PreparePrompt = (
  prompt: Inbound<"prompt">,
  context: Omit<ReadyAgent, "client"> & { readonly agentSessionId: string },
  signal: AbortSignal,
) => Promise<{ readonly body: PromptBody; readonly models: readonly string[] }>

export interface ChannelsOptions {
  readonly sessions: ChannelStore
  readonly jobs: JobStore
  readonly clock: Clock
  readonly log: Log
  readonly send: (frame: OutboundFrame) => void
  readonly mint: MintId
  readonly prepare: PreparePrompt
  /** A turn has ended; `files` are the ones that it changed, as far as OpenCode knows. */
  readonly onTurnFiles?: (files: Outbound<"files-changed">["files"]) => void
  /** A turn has ended with any outcome, and its last frames were sent. */
  readonly onTurnOver?: (turn: TurnAddress) => void
  /** A sub-agent's session was found for the first time. */
  readonly onChildSession?: (childId: string, parentId: string) => void
  readonly settings?: Partial<Pick<TurnSettings, "budgets" | "relayPermissions">>
}

/** The message of a turn and the prompt that it answers, under their names in frames. */
export type TurnAddress = Readonly<
  Record<"turnId" | "messageId" | "channelType" | "channelId", string>
>

/** What a channel gets from its surroundings. */
export interface ChannelPorts extends Omit<ChannelsOptions, "settings"> {
  readonly settings: Partial<TurnSettings>
  readonly persistence: TurnPersistence
  readonly agent: () => ReadyAgent | undefined
  readonly subscribe: (agentSessionId: string, listener: Listener) => void
  readonly onJobEnded: (job: Job, outcome: Outcome, text: string | undefined) => void
  readonly onTurnEnded: (turn: Turn, agent: ReadyAgent) => void
  /** While true, queued jobs are not started. */
  readonly isPaused: () => boolean
  /** A channel has ended its job and starts no other, because its queue is empty or turns are paused. */
  readonly onIdle: () => void
}

/** The prompt and the agent session to which a tool call or a permission belongs, under their names in frames. */
export type Origin = Readonly<
  Record<"channelType" | "channelId" | "messageId" | "opencodeSessionId", string>
>

export interface Channels {
  readonly converse: PrivateTurns["converse"]
  /** Queues a job. A duplicate does not run again: its current state is reported. */
  readonly take: (job: Job) => void
  /** Queues a job that must be new; resolves when it has ended with any outcome. */
  readonly run: (job: Job) => Promise<JobReport>
  /** Cancels queued and running jobs on one channel, or on all if `scope` is undefined; resolves when they have ended. */
  readonly stop: (scope: ChannelAddress | undefined, reason: string) => Promise<void>
  /** Stops the channel; its next prompt starts a new agent session. */
  readonly resetConversation: (address: ChannelAddress) => Promise<void>
  /** After its running turn each channel forgets its agent session: its next prompt starts a new one. */
  readonly startAfresh: () => Promise<void>
  /** Queues `work`; while it runs, no turn runs on the channel. */
  readonly runExclusively: <Result>(address: ChannelAddress, work: Work<Result>) => Promise<Result>
  /** False when the question is not open in any running turn. */
  readonly answer: (questionId: string, answer: string | boolean) => boolean
  /** False when the permission is not open in any running turn; nothing is granted then. */
  readonly replyPermission: (permissionId: string, reply: PermissionReply) => boolean
  /** Undefined while OpenCode is not ready. */
  readonly agent: () => ReadyAgent | undefined
  /** Resolves when OpenCode is ready; rejects after a limit. */
  readonly waitForAgent: () => Promise<ReadyAgent>
  /** Queued jobs start at once, or with the next call of this or of `resumeTurns` if `mayStartTurns` is false. */
  readonly agentReady: (agent: ReadyAgent, mayStartTurns?: boolean) => void
  readonly agentLost: (why: string) => void
  readonly agentEvent: (event: AgentEvent) => void
  /** OpenCode's event stream was interrupted: events may be missing, so running turns read their sessions. */
  readonly streamGap: () => void
  /** The prompt for which an agent session (a channel's or a sub-agent's) works now. */
  readonly originOf: (agentSessionId: string) => Origin | undefined
  readonly active: () => Outbound<"hello">["active"]
  readonly isIdle: () => boolean
  /** Idle only when no job is running or queued. */
  readonly status: () => Pick<Outbound<"agentStatus">, "status" | "detail">
  /** Resolves when OpenCode has computed the changes of the session's last prompt, or after a limit. */
  readonly waitForSummary: Summaries["waitFor"]
  /** Resolves when no job is running or queued. */
  readonly settled: () => Promise<void>
  /** Stops starting queued jobs, and resolves when nothing runs. The next `agentReady` or `resumeTurns` ends the pause. */
  readonly pauseTurns: () => Promise<void>
  readonly resumeTurns: () => void
  /** Stores what changed in the turns; called inside the transaction that stores the frames about it. */
  readonly persist: () => void
  /** A tap of the link: collects tool results of jobs that were started with `run`. */
  readonly onFrameSent: (frame: OutboundFrame) => void
  /** Called after that transaction is committed. */
  readonly persisted: () => void
}

/** A session agent waits 120 s for an answer. */
const AGENT_START_MS = 60_000

export const createChannels = (options: ChannelsOptions): Channels => {
  const { jobs, log, send, clock, mint } = options
  const channels = new Map<string, Channel>()
  const persistence = createTurnPersistence(jobs)
  const eventRouter = createEventRouter((child, parent) => options.onChildSession?.(child, parent))
  const titles = new Map<string, string>()
  const summaries = createSummaries(clock)
  const jobWaiters = createJobWaiters()
  let agent: ReadyAgent | undefined
  let whenReady = Promise.withResolvers<void>()
  let idleWaiters: (() => void)[] = []
  let pausing: PromiseWithResolvers<void> | undefined

  const isIdle = () => ![...channels.values()].some((channel) => channel.isBusy())
  const ports: ChannelPorts = {
    ...options,
    settings: options.settings ?? {},
    onJobEnded: (job, outcome, text) => jobWaiters.ended(jobId(job), outcome, text),
    persistence,
    agent: () => agent,
    subscribe: eventRouter.subscribe,
    onTurnEnded: (turn, used) => {
      for (const child of turn.children) eventRouter.unsubscribe(child)
      const { promptId: messageId, channelType, channelId } = turn.identity
      options.onTurnOver?.({ turnId: turnIdOf(turn), messageId, channelType, channelId })
      if (turn.toolRan) void reportChangedFiles(turn, used)
      else options.onTurnFiles?.([])
    },
    isPaused: () => pausing !== undefined,
    onIdle: () => {
      if (!isRunning()) pausing?.resolve()
      if (!isIdle()) return
      const woken = idleWaiters
      idleWaiters = []
      for (const wake of woken) wake()
    },
  }

  const waitForAgent = async (): Promise<ReadyAgent> => {
    if (!agent) await within(clock, AGENT_START_MS, whenReady.promise)
    if (!agent) throw new Error("OpenCode is not ready: try again")
    return agent
  }

  const channelOf = (address: ChannelAddress): Channel => {
    const key = channelKey(address)
    const known = channels.get(key)
    if (known) return known
    const created = createChannel(address, ports)
    channels.set(key, created)
    return created
  }

  const all = () => [...channels.values()]
  const running = () => all().flatMap((channel) => channel.turns())

  const reportChangedFiles = async ({ identity }: Turn, { client }: ReadyAgent): Promise<void> => {
    try {
      await summaries.waitFor(identity.agentSessionId)
      const files = await client.diff(identity.agentSessionId, identity.userMessageId)
      const changed = files.map(({ file, status, additions, deletions }) => ({
        path: file,
        status,
        additions,
        deletions,
      }))
      options.onTurnFiles?.(changed)
    } catch (error) {
      log.warn("files-changed.read-failed", { error })
    }
  }

  /** OpenCode titles a session after its first exchange; before that it has a generated title. */
  const reportTitle = (event: Extract<AgentEvent, { type: "session" }>): void => {
    const { agentSessionId, title, parentId } = event
    const isRunningSession = running().some(
      ({ identity }) => identity.agentSessionId === agentSessionId,
    )
    if (title === undefined || parentId !== undefined || !isRunningSession) return
    if (UNTITLED.test(title) || titles.get(agentSessionId) === title) return
    titles.set(agentSessionId, title)
    send({ type: "title", title })
  }

  const channelWith = (agentSessionId: string): Channel | undefined => {
    const key = options.sessions.channelOf(agentSessionId)
    return key === undefined ? undefined : channelOf(channelAddress(key))
  }
  /** An answer begins to a prompt that no job has posted: another client of OpenCode has. */
  const followForeignTurn = ({ message }: Extract<AgentEvent, { type: "message" }>): void => {
    const { role, completed, parentId, agentSessionId } = message
    if (role !== "assistant" || completed || parentId === undefined) return
    if (jobs.hasUserMessage(parentId)) return
    void channelWith(agentSessionId)?.follow(agentSessionId, parentId)
  }
  /** Undefined if this OpenCode has ended meanwhile: the runner may have stopped and closed its database. */
  const followBusySessions = async (from: ReadyAgent) => {
    const statuses = await from.client.statuses().catch(() => new Map<string, unknown>())
    if (agent !== from) return undefined
    for (const agentSessionId of statuses.keys())
      void channelWith(agentSessionId)?.follow(agentSessionId)
    return statuses
  }
  /** The events of foreign turns may have been missed, of those at work and of those that have ended. */
  const findForeignTurns = async (from: ReadyAgent): Promise<void> => {
    const statuses = await followBusySessions(from)
    if (!statuses) return
    for (const agentSessionId of options.sessions.all()) {
      if (agent !== from) return
      if (!statuses.has(agentSessionId))
        await channelWith(agentSessionId)?.showMissed(agentSessionId)
    }
  }

  const resolveWhenIdle = async ({ resolve }: PromiseWithResolvers<void>): Promise<void> => {
    if (agent) await followBusySessions(agent)
    if (!isRunning()) resolve()
  }

  const stateOf = (id: string, channel: Channel): JobState | undefined => {
    const turn = channel.turns().find(({ identity }) => identity.promptId === id)
    if (turn) return { is: "running", turn: turn.state() }
    const outcome = persistence.outcomeOf(id)
    if (outcome) return { is: "ended", outcome }
    return jobs.stateOf(id) === undefined ? undefined : { is: "waiting" }
  }

  const stop = async (scope: ChannelAddress | undefined, reason: string): Promise<void> => {
    const selected = scope ? all().filter(({ key }) => key === channelKey(scope)) : all()
    await Promise.all(selected.map((channel) => channel.stop(reason, scope !== undefined)))
  }

  const take = (job: Job): void => {
    const address = jobAddress(job)
    const channel = channelOf(address)
    const state = stateOf(jobId(job), channel)
    if (state) {
      log.warn("job.duplicate", { id: jobId(job), state: state.is })
      for (const frame of duplicateJobFrames(job, address, state)) send(frame)
      return
    }
    jobs.queued(jobId(job), channel.key, job)
    channel.enqueue(job)
  }

  for (const stored of jobs.unfinished()) channelOf(jobAddress(stored.job)).restore(stored)

  const privateTurns = createPrivateTurns({
    ...ports,
    waitForAgent,
    mint,
    clock,
    log,
    unsubscribe: eventRouter.unsubscribe,
  })
  const allTurns = () => [...running(), ...privateTurns.turns()]
  const isRunning = () =>
    privateTurns.turns().length > 0 || all().some((channel) => channel.isRunning())

  return {
    converse: privateTurns.converse,
    stop,
    resetConversation: async (address) => {
      await stop(address, "a new conversation was started")
      options.sessions.setAgentSession(channelKey(address), undefined)
    },
    startAfresh: async () => {
      const keys = options.sessions.all().flatMap((id) => options.sessions.channelOf(id) ?? [])
      await Promise.all(
        keys.map((key) =>
          channelOf(channelAddress(key)).runExclusively(async () =>
            options.sessions.setAgentSession(key, undefined),
          ),
        ),
      )
    },
    take,
    run: (job) => {
      const report = jobWaiters.wait(jobId(job))
      take(job)
      return report
    },
    runExclusively: (address, work) => channelOf(address).runExclusively(work),
    answer: (questionId, answer) => {
      const turn = running().find((candidate) =>
        candidate.state().questions.some((open) => open.questionId === questionId),
      )
      turn?.dispatch({ type: "answer", questionId, answer })
      return turn !== undefined
    },
    replyPermission: (permissionId, reply) => {
      const turn = running().find((candidate) =>
        candidate.state().permissions.some((open) => open.permissionId === permissionId),
      )
      turn?.dispatch({ type: "permission-reply", permissionId, reply })
      return turn !== undefined
    },
    agent: () => agent,
    waitForAgent,
    agentReady: (ready, mayStartTurns = true) => {
      agent = ready
      whenReady.resolve()
      pausing = mayStartTurns ? undefined : (pausing ?? Promise.withResolvers())
      for (const channel of all()) channel.agentReady(ready)
      void findForeignTurns(ready)
    },
    agentLost: (why) => {
      if (agent) whenReady = Promise.withResolvers()
      agent = undefined
      for (const turn of allTurns()) turn.dispatch({ type: "agent-lost", error: why })
    },
    waitForSummary: summaries.waitFor,
    agentEvent: (event) => {
      summaries.onEvent(event)
      eventRouter.dispatch(event)
      if (event.type === "session") reportTitle(event)
      if (event.type === "message") followForeignTurn(event)
    },
    streamGap: () => {
      for (const turn of allTurns()) turn.dispatch({ type: "stream-gap" })
      if (agent) void findForeignTurns(agent)
    },
    originOf: (agentSessionId) => {
      const turn = running().find(
        ({ identity, state }) =>
          identity.agentSessionId === agentSessionId || state().children.includes(agentSessionId),
      )
      if (!turn) return undefined
      const { channelType, channelId, promptId } = turn.identity
      return { channelType, channelId, messageId: promptId, opencodeSessionId: agentSessionId }
    },
    active: () => all().flatMap((channel) => channel.active()),
    isIdle,
    status: () => {
      if (isIdle()) return { status: "idle" }
      const turn = running().at(0)?.state()
      const status = turn && turn.status !== "idle" ? turn.status : "thinking"
      return { status, ...(turn?.statusDetail !== undefined && { detail: turn.statusDetail }) }
    },
    settled: () =>
      isIdle() ? Promise.resolve() : new Promise((resolve) => idleWaiters.push(resolve)),
    pauseTurns: () => {
      const paused = (pausing ??= Promise.withResolvers())
      // First, since a foreign turn that has just begun would be ended by what the pause is for.
      void resolveWhenIdle(paused)
      return paused.promise
    },
    resumeTurns: () => {
      pausing = undefined
      for (const channel of all()) channel.startNext()
    },
    persist: persistence.persist,
    onFrameSent: jobWaiters.observe,
    persisted: persistence.persisted,
  }
}

const UNTITLED = /^(?:New|Child) session - \d{4}-/

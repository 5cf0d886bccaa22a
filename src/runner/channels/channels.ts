/**
 * Turns in the plural: each channel has its own OpenCode session and its own queue; channels run side by side.
 * Events find their channel by the session they name.
 */
import type { AgentClient } from "../opencode/client/client.ts"
import type { AgentEvent } from "../opencode/events/events.ts"
import type { MintId, PromptBody } from "../opencode/client/types.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { Inbound, Outbound, OutboundFrame } from "../../wire/frames/index.ts"
import type { Outcome, PermissionReply, Turn, TurnSettings } from "../turn/turn.ts"
import type { ChannelStore } from "./agent-sessions.ts"
import { createAwaited, type JobReport } from "./job-waiters.ts"
import { type Channel, createChannel, type Work } from "./channel.ts"
import { type ChannelAddress, keyOf } from "../../wire/channel.ts"
import { createListeners, type Listener } from "./event-routing.ts"
import type { JobStore } from "./job-store.ts"
import { type Job, jobAddress, jobId } from "./jobs.ts"
import { createLedger, type Ledger } from "./turn-persistence.ts"
import { createPrivateTurns, type PrivateTurns } from "./private-turn.ts"
import { type PresentState, presentState } from "./duplicate-job.ts"
import { createSummaries, type Summaries } from "./wait-for-summary.ts"

/** The agent, once it can work: healthy, configured and listened to. */
export interface ReadyAgent {
  readonly client: AgentClient
  readonly defaultModel: string | undefined
}

/** Makes a prompt ready: what is attached to it is fetched and read, its models are chosen. */
export type PreparePrompt = (
  prompt: Inbound<"prompt">,
  context: { readonly defaultModel: string | undefined; readonly sessionId: string },
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
  /** A sub-agent's session has come up for another one. */
  readonly onChildSession?: (childId: string, parentId: string) => void
  readonly settings?: Partial<Pick<TurnSettings, "budgets" | "relayPermissions">>
}

/** What a channel needs of its surroundings. */
export interface ChannelPorts extends Omit<ChannelsOptions, "settings"> {
  readonly settings: Partial<TurnSettings>
  readonly ledger: Ledger
  readonly agent: () => ReadyAgent | undefined
  readonly listen: (sessionId: string, listener: Listener) => void
  readonly onJobEnded: (job: Job, outcome: Outcome, text: string | undefined) => void
  readonly onTurnEnded: (turn: Turn, agent: ReadyAgent) => void
  /** Nothing that waits may begin. */
  readonly isPaused: () => boolean
  readonly onIdle: () => void
}

/** The prompt and the conversation that something belongs to, as frames name them. */
export type Origin = Readonly<
  Record<"channelType" | "channelId" | "messageId" | "opencodeSessionId", string>
>

export interface Channels {
  readonly converse: PrivateTurns["converse"]
  /** One that was taken before is not run again: its present state is reported. */
  readonly take: (job: Job) => void
  /** Takes a job that was never taken before, and resolves when it has ended, however it did. */
  readonly run: (job: Job) => Promise<JobReport>
  /** Ends what runs and what waits, on one channel or, without one, on all; resolves when it has ended. */
  readonly stop: (scope: ChannelAddress | undefined, reason: string) => Promise<void>
  /** Stops what runs there; the channel's next prompt starts a conversation of its own. */
  readonly forget: (address: ChannelAddress) => Promise<void>
  /** Runs `work` between two turns of the channel. */
  readonly exclusively: <Result>(address: ChannelAddress, work: Work<Result>) => Promise<Result>
  /** False when no turn asks that question. */
  readonly answer: (questionId: string, answer: string | boolean) => boolean
  /** False when no turn asks for that permission: nothing is granted. */
  readonly permit: (permissionId: string, reply: PermissionReply) => boolean
  /** Nothing while OpenCode is away. */
  readonly agent: () => ReadyAgent | undefined
  readonly agentReady: (agent: ReadyAgent) => void
  readonly agentLost: (why: string) => void
  readonly agentEvent: (event: AgentEvent) => void
  readonly streamGap: () => void
  /** What an agent session works for now, be it a channel's own or a sub-agent's. */
  readonly originOf: (sessionId: string) => Origin | undefined
  readonly active: () => Outbound<"hello">["active"]
  readonly isIdle: () => boolean
  /** What the agent does now: idle only when nothing runs and nothing waits. */
  readonly status: () => Pick<Outbound<"agentStatus">, "status" | "detail">
  /** Resolves when what a session's last prompt has changed is known. */
  readonly summedUp: Summaries["of"]
  /** Resolves when no turn runs and none waits. */
  readonly settled: () => Promise<void>
  /** Lets nothing that waits begin, and resolves when nothing is at work; the next agent, or `goOn`, ends it. */
  readonly pause: () => Promise<void>
  readonly goOn: () => void
  /** Writes what changed since the last call; called inside the transaction that stores the frames. */
  readonly persist: () => void
  readonly persisted: () => void
}

export const createChannels = (options: ChannelsOptions): Channels => {
  const { jobs, log, send, clock, mint } = options
  const channels = new Map<string, Channel>()
  const ledger = createLedger(jobs)
  const listeners = createListeners((child, parent) => options.onChildSession?.(child, parent))
  const titles = new Map<string, string>()
  const summaries = createSummaries(clock)
  const awaited = createAwaited()
  let agent: ReadyAgent | undefined
  let idleWaiters: (() => void)[] = []
  let pausing: PromiseWithResolvers<void> | undefined

  const isIdle = () => ![...channels.values()].some((channel) => channel.isBusy())
  const ports: ChannelPorts = {
    ...options,
    settings: options.settings ?? {},
    send: (frame) => {
      awaited.saw(frame)
      send(frame)
    },
    onJobEnded: (job, outcome, text) => awaited.ended(jobId(job), outcome, text),
    ledger,
    agent: () => agent,
    listen: listeners.listen,
    onTurnEnded: (turn, used) => {
      for (const child of turn.children) listeners.forget(child)
      if (turn.toolRan) void tellFilesChanged(turn, used)
    },
    isPaused: () => pausing !== undefined,
    onIdle: () => {
      if (!isAtWork()) pausing?.resolve()
      if (!isIdle()) return
      const woken = idleWaiters
      idleWaiters = []
      for (const wake of woken) wake()
    },
  }

  const channelOf = (address: ChannelAddress): Channel => {
    const key = keyOf(address)
    const known = channels.get(key)
    if (known) return known
    const made = createChannel(address, ports)
    channels.set(key, made)
    return made
  }

  const all = () => [...channels.values()]
  const running = () => all().flatMap((channel) => channel.turns())

  const tellFilesChanged = async ({ identity }: Turn, { client }: ReadyAgent): Promise<void> => {
    try {
      await summaries.of(identity.sessionId)
      const files = await client.diff(identity.sessionId, identity.userMessageId)
      if (files.length === 0) return
      const changed = files.map(({ file, status, additions, deletions }) => ({
        path: file,
        status,
        additions,
        deletions,
      }))
      send({ type: "files-changed", files: changed })
    } catch (error) {
      log.warn("files-changed.unknown", { error })
    }
  }

  /** OpenCode names a conversation after its first exchange; until then it has a name of its own making. */
  const tellTitle = (event: Extract<AgentEvent, { type: "session" }>): void => {
    const { agentSessionId: sessionId, title, parentId } = event
    const isChannels = running().some(({ identity }) => identity.sessionId === sessionId)
    if (title === undefined || parentId !== undefined || !isChannels) return
    if (UNTITLED.test(title) || titles.get(sessionId) === title) return
    titles.set(sessionId, title)
    send({ type: "title", title })
  }

  const stateOf = (id: string, channel: Channel): PresentState | undefined => {
    const turn = channel.turns().find(({ identity }) => identity.promptId === id)
    if (turn) return { is: "running", turn: turn.now() }
    const outcome = ledger.outcomeOf(id)
    if (outcome) return { is: "ended", outcome }
    return jobs.stateOf(id) === undefined ? undefined : { is: "waiting" }
  }

  const stop = async (scope: ChannelAddress | undefined, reason: string): Promise<void> => {
    const meant = scope ? all().filter(({ key }) => key === keyOf(scope)) : all()
    await Promise.all(meant.map((channel) => channel.stop(reason)))
  }

  const take = (job: Job): void => {
    const address = jobAddress(job)
    const channel = channelOf(address)
    const state = stateOf(jobId(job), channel)
    if (state) {
      log.warn("job.repeated", { id: jobId(job), state: state.is })
      for (const frame of presentState(job, address, state)) send(frame)
      return
    }
    jobs.queued(jobId(job), channel.key, job)
    channel.add(job)
  }

  for (const stored of jobs.unfinished()) channelOf(jobAddress(stored.job)).restore(stored)

  const privately = createPrivateTurns({ ...ports, mint, clock, log, forget: listeners.forget })
  const everyTurn = () => [...running(), ...privately.turns()]
  const isAtWork = () => privately.turns().length > 0 || all().some((channel) => channel.isAtWork())

  return {
    converse: privately.converse,
    stop,
    forget: async (address) => {
      await stop(address, "the conversation was started anew")
      options.sessions.setSession(keyOf(address), undefined)
    },
    take,
    run: (job) => {
      const report = awaited.wait(jobId(job))
      take(job)
      return report
    },
    exclusively: (address, work) => channelOf(address).exclusively(work),
    answer: (questionId, answer) => {
      const asked = running().find((turn) =>
        turn.now().questions.some((open) => open.questionId === questionId),
      )
      asked?.tell({ type: "answer", questionId, answer })
      return asked !== undefined
    },
    permit: (permissionId, reply) => {
      const asked = running().find((turn) =>
        turn.now().permissions.some((open) => open.permissionId === permissionId),
      )
      asked?.tell({ type: "permission-reply", permissionId, reply })
      return asked !== undefined
    },
    agent: () => agent,
    agentReady: (ready) => {
      agent = ready
      pausing = undefined
      for (const channel of all()) channel.agentReady(ready)
    },
    agentLost: (why) => {
      agent = undefined
      for (const turn of everyTurn()) turn.tell({ type: "agent-lost", error: why })
    },
    summedUp: summaries.of,
    agentEvent: (event) => {
      summaries.hear(event)
      listeners.dispatch(event)
      if (event.type === "session") tellTitle(event)
    },
    streamGap: () => {
      for (const turn of everyTurn()) turn.tell({ type: "gap" })
    },
    originOf: (sessionId) => {
      const turn = running().find(
        ({ identity, now }) =>
          identity.sessionId === sessionId || now().children.includes(sessionId),
      )
      if (!turn) return undefined
      const { channelType, channelId, promptId } = turn.identity
      return { channelType, channelId, messageId: promptId, opencodeSessionId: sessionId }
    },
    active: () => all().flatMap((channel) => channel.active()),
    isIdle,
    status: () => {
      if (isIdle()) return { status: "idle" }
      const turn = running().at(0)?.now()
      const status = turn && turn.status !== "idle" ? turn.status : "thinking"
      return { status, ...(turn?.statusDetail !== undefined && { detail: turn.statusDetail }) }
    },
    settled: () =>
      isIdle() ? Promise.resolve() : new Promise((resolve) => idleWaiters.push(resolve)),
    pause: () => {
      pausing ??= Promise.withResolvers()
      if (!isAtWork()) pausing.resolve()
      return pausing.promise
    },
    goOn: () => {
      pausing = undefined
      for (const channel of all()) channel.goOn()
    },
    persist: ledger.persist,
    persisted: ledger.persisted,
  }
}

const UNTITLED = /^(?:New|Child) session - \d{4}-/

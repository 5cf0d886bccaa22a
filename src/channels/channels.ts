/**
 * Turns in the plural: each channel has its own OpenCode session, its own queue and at most one turn; channels run
 * side by side. Events find their channel by the session they name.
 */
import type { AgentClient } from "../agent/client.ts"
import type { AgentEvent } from "../agent/events.ts"
import type { MintId } from "../agent/shapes.ts"
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import { promptBody } from "../prompt/body.ts"
import type { Inbound, Outbound, OutboundFrame } from "../protocol/index.ts"
import { step } from "../turn/step.ts"
import { type Budgets, newTurn } from "../turn/turn.ts"
import { addressOf, type ChannelAddress, keyOf } from "./channel-key.ts"
import { type RunningTurn, startTurn } from "./perform.ts"

/** Which OpenCode session a channel talks in; it outlives the process. */
export interface ChannelStore {
  readonly sessionOf: (key: string) => string | undefined
  /** Without a session the channel starts a fresh one with its next prompt. */
  readonly setSession: (key: string, sessionId: string | undefined) => void
}

export interface ChannelsOptions {
  readonly store: ChannelStore
  readonly clock: Clock
  readonly log: Log
  readonly mint: MintId
  readonly send: (frame: OutboundFrame) => void
  readonly budgets?: Budgets
}

/** The agent, once it can work: healthy, configured and listened to. */
export interface ReadyAgent {
  readonly client: AgentClient
  readonly defaultModel: string | undefined
}

export interface Channels {
  readonly prompt: (prompt: Inbound<"prompt">) => void
  /** Ends what runs and what waits, on one channel or, without one, on all; tells how many turns it stopped. */
  readonly stop: (scope: ChannelAddress | undefined, reason: string) => number
  /** Stops what runs there; the channel's next prompt starts a conversation of its own. */
  readonly forget: (address: ChannelAddress) => void
  /** False when no turn asks that question. */
  readonly answer: (questionId: string, answer: string | boolean) => boolean
  readonly agentReady: (agent: ReadyAgent) => void
  readonly agentLost: (why: string) => void
  readonly agentEvent: (event: AgentEvent) => void
  readonly streamGap: () => void
  readonly active: () => Outbound<"hello">["active"]
  readonly isIdle: () => boolean
  /** Resolves when no turn runs and none waits. */
  readonly settled: () => Promise<void>
}

interface Channel {
  readonly key: string
  readonly address: ChannelAddress
  readonly queue: Inbound<"prompt">[]
  /** A prompt that is being made ready, before its turn exists. */
  preparing: Inbound<"prompt"> | undefined
  turn: RunningTurn | undefined
}

export const createChannels = (options: ChannelsOptions): Channels => {
  const { store, clock, log, mint, send } = options
  const channels = new Map<string, Channel>()
  /** Which channel an OpenCode session speaks for, sub-agents' sessions included. */
  const owners = new Map<string, Channel>()
  const taken = new Set<string>()
  let agent: ReadyAgent | undefined
  let idleWaiters: (() => void)[] = []

  const channelOf = (address: ChannelAddress): Channel => {
    const key = keyOf(address)
    const known = channels.get(key)
    if (known) return known
    const made: Channel = { key, address, queue: [], preparing: undefined, turn: undefined }
    channels.set(key, made)
    return made
  }

  const isBusy = (channel: Channel) =>
    channel.turn !== undefined || channel.preparing !== undefined || channel.queue.length > 0

  const drain = (channel: Channel): void => {
    if (!agent || channel.turn || channel.preparing) return
    const prompt = channel.queue.shift()
    if (prompt) return void run(channel, prompt, agent)
    if ([...channels.values()].some(isBusy)) return
    const woken = idleWaiters
    idleWaiters = []
    for (const wake of woken) wake()
  }

  const run = async (channel: Channel, prompt: Inbound<"prompt">, using: ReadyAgent) => {
    channel.preparing = prompt
    try {
      const sessionId = await ensureSession(channel, prompt, using.client)
      if (channel.preparing !== prompt) return
      const body = promptBody(prompt, using.defaultModel, mint)
      const turn = startTurn({
        identity: {
          promptId: prompt.messageId,
          turnId: crypto.randomUUID(),
          ...channel.address,
          sessionId,
          userMessageId: body.messageID,
        },
        body,
        client: using.client,
        clock,
        log,
        send,
        onEnded: () => {
          channel.turn = undefined
          drain(channel)
        },
        ...(options.budgets && { budgets: options.budgets }),
      })
      channel.preparing = undefined
      channel.turn = turn
      turn.tell({ type: "start" })
    } catch (error) {
      if (channel.preparing !== prompt) return
      channel.preparing = undefined
      endUnstarted(channel, prompt, { type: "agent-lost", error: describeError(error) })
      drain(channel)
    }
  }

  /** A prompt that never became a turn ends like one: once, with the same frames. */
  const endUnstarted = (
    channel: Channel,
    prompt: Inbound<"prompt">,
    end: { type: "agent-lost"; error: string } | { type: "stop"; reason: string },
  ) => {
    const identity = {
      promptId: prompt.messageId,
      turnId: crypto.randomUUID(),
      ...channel.address,
      sessionId: "",
      userMessageId: "",
    }
    const idle = { status: { type: "idle" }, messages: [] } as const
    const [stopped, first] = step(newTurn(identity), end, clock.now())
    const [, rest] = step(stopped, { type: "read", why: "recheck", snapshot: idle }, clock.now())
    for (const effect of [...first, ...rest]) if (effect.do === "send") send(effect.frame)
  }

  const ensureSession = async (
    channel: Channel,
    prompt: Inbound<"prompt">,
    client: AgentClient,
  ): Promise<string> => {
    for (const candidate of [prompt.opencodeSessionId, store.sessionOf(channel.key)]) {
      if (candidate !== undefined && (await client.sessionExists(candidate))) {
        return adopt(channel, candidate)
      }
    }
    const made = await client.createSession()
    send({ type: "channel-session-created", channelKey: channel.key, opencodeSessionId: made })
    return adopt(channel, made)
  }

  const adopt = (channel: Channel, sessionId: string): string => {
    owners.set(sessionId, channel)
    if (store.sessionOf(channel.key) !== sessionId) store.setSession(channel.key, sessionId)
    return sessionId
  }

  const running = () => [...channels.values()].flatMap((channel) => channel.turn ?? [])

  const stop = (scope: ChannelAddress | undefined, reason: string): number => {
    const found = scope ? channels.get(keyOf(scope)) : undefined
    const meant = scope ? (found ? [found] : []) : [...channels.values()]
    for (const channel of meant) {
      const waiting = channel.queue.splice(0)
      if (channel.preparing) waiting.unshift(channel.preparing)
      channel.preparing = undefined
      for (const prompt of waiting) endUnstarted(channel, prompt, { type: "stop", reason })
      channel.turn?.tell({ type: "stop", reason })
    }
    return meant.filter((channel) => channel.turn).length
  }

  return {
    stop,
    forget: (address) => {
      stop(address, "the conversation was started anew")
      store.setSession(keyOf(address), undefined)
    },
    prompt: (prompt) => {
      if (taken.has(prompt.messageId)) {
        log.warn("prompt.repeated", { messageId: prompt.messageId })
        return
      }
      taken.add(prompt.messageId)
      const channel = channelOf(addressOf(prompt))
      channel.queue.push(prompt)
      drain(channel)
    },
    answer: (questionId, answer) => {
      const asked = running().find((turn) =>
        turn.now().questions.some((open) => open.questionId === questionId),
      )
      asked?.tell({ type: "answer", questionId, answer })
      return asked !== undefined
    },
    agentReady: (ready) => {
      agent = ready
      for (const channel of channels.values()) drain(channel)
    },
    agentLost: (why) => {
      agent = undefined
      for (const turn of running()) turn.tell({ type: "agent-lost", error: why })
    },
    agentEvent: (event) => {
      if (!("sessionId" in event)) return
      if (event.type === "session" && event.parentId !== undefined) {
        const parent = owners.get(event.parentId)
        if (parent) owners.set(event.sessionId, parent)
      }
      const turn = owners.get(event.sessionId)?.turn
      // A sub-agent's session belongs to the channel, but only the channel's own session makes up its turn.
      if (turn?.identity.sessionId === event.sessionId) turn.tell({ type: "agent", event })
    },
    streamGap: () => {
      for (const turn of running()) turn.tell({ type: "gap" })
    },
    active: () =>
      [...channels.values()].flatMap((channel) => {
        const waiting = [...(channel.preparing ? [channel.preparing] : []), ...channel.queue]
        const queued = waiting.map(({ messageId }) => ({ messageId, channelKey: channel.key }))
        if (!channel.turn) return queued
        const { promptId, turnId, sessionId } = channel.turn.identity
        const runs = {
          messageId: promptId,
          channelKey: channel.key,
          turnId,
          opencodeSessionId: sessionId,
        }
        return [runs, ...queued]
      }),
    isIdle: () => ![...channels.values()].some(isBusy),
    settled: () =>
      [...channels.values()].some(isBusy)
        ? new Promise((resolve) => idleWaiters.push(resolve))
        : Promise.resolve(),
  }
}

/** Turns that another client of OpenCode has started in a session of the channel: they are shown as turns of the channel. */
import type { ChannelAddress } from "../../wire/channel.ts"
import { channelKey } from "../../wire/channel.ts"
import { describeError } from "../../lib/log.ts"
import { AgentCallError } from "../opencode/client/client.ts"
import { newTurn, type Turn } from "../turn/turn.ts"
import { changedTurn } from "../turn/turn-record.ts"
import type { ChannelPorts, ReadyAgent } from "./channels.ts"
import {
  foreignJob,
  type ForeignPrompt,
  readForeignPrompt,
  readMissedPrompt,
} from "./foreign-prompt.ts"
import { type Job, jobId } from "./jobs.ts"
import type { Slot, Slots } from "./slots.ts"
import type { Posting, RunningTurn } from "./turn-effects.ts"

export interface ForeignTurnsOptions {
  readonly address: ChannelAddress
  readonly ports: ChannelPorts
  readonly slots: Slots
  readonly isBusy: () => boolean
  readonly startNext: () => void
  readonly launch: (
    slot: Slot,
    job: Job,
    turn: Turn,
    posting: Posting,
    agent: ReadyAgent,
  ) => RunningTurn
}

export interface ForeignTurns {
  /** Another client works in this agent session: shows its turn, unless the channel is at work itself. */
  readonly follow: (agentSessionId: string, userMessageId?: string) => Promise<void>
  /** Shows a turn in a slot that may have been opened for a job, which is in the queue again. */
  readonly followIn: (
    slot: Slot,
    agent: ReadyAgent,
    agentSessionId: string,
    foreign: ForeignPrompt,
  ) => void
  /** Shows turns of this agent session whose events were missed, also those that have ended. */
  readonly showMissed: (agentSessionId: string) => Promise<void>
  /** Shows the oldest turn that is not shown. False if all are; the next call, after its end, shows the next one. */
  readonly showUnseen: (agent: ReadyAgent) => boolean
}

export const createForeignTurns = (options: ForeignTurnsOptions): ForeignTurns => {
  const { address, ports, slots, isBusy, startNext, launch } = options
  const { jobs, send, log } = ports
  /** In this agent session there may be turns that are not shown yet. */
  let unseenIn: string | undefined

  const followIn: ForeignTurns["followIn"] = (slot, agent, agentSessionId, foreign) => {
    const job = foreignJob(foreign, address)
    const identity = {
      promptId: jobId(job),
      turnId: crypto.randomUUID(),
      ...address,
      agentSessionId,
      userMessageId: foreign.userMessageId,
    }
    const { endsBefore } = foreign
    const turn = newTurn(identity, {
      ...ports.settings,
      models: [],
      observed: true,
      ...(endsBefore !== undefined && { endsBefore }),
    })
    const posting: Posting = {
      kind: "prompt",
      body: { messageID: foreign.userMessageId, parts: [] },
    }
    const saved = changedTurn(turn, undefined)
    jobs.queued(jobId(job), channelKey(address), job)
    if (saved) jobs.started(jobId(job), posting, saved)
    send({ type: "workflow-chat-message", role: "user", content: foreign.text, ...address })
    slot.job = job
    launch(slot, job, turn, posting, agent).dispatch({ type: "resume" })
  }

  const warn = (error: unknown): undefined => {
    log.warn("foreign-turn.not-read", { error: describeError(error) })
  }

  const readMissed = ({ client }: ReadyAgent, agentSessionId: string) =>
    readMissedPrompt(client, agentSessionId, jobs.hasUserMessage).catch((error: unknown) => {
      const isGone = error instanceof AgentCallError && error.status === 404
      return isGone ? undefined : warn(error)
    })

  const show = async (agent: ReadyAgent, agentSessionId: string): Promise<void> => {
    const slot = slots.open(undefined)
    unseenIn = undefined
    const missed = await readMissed(agent, agentSessionId)
    if (!missed || ports.agent() !== agent) return slots.close(slot)
    unseenIn = agentSessionId
    followIn(slot, agent, agentSessionId, missed)
  }

  return {
    followIn,
    follow: async (agentSessionId, userMessageId) => {
      const agent = ports.agent()
      if (!agent) return
      if (isBusy()) {
        unseenIn = agentSessionId
        return
      }
      const slot = slots.open(undefined)
      const foreign = await readForeignPrompt(
        agent.client,
        agentSessionId,
        jobs.hasUserMessage,
        userMessageId,
      ).catch(warn)
      if (foreign && ports.agent() === agent) followIn(slot, agent, agentSessionId, foreign)
      else slots.close(slot)
    },
    // Reads without a slot: the channel's own prompts do not wait for it.
    showMissed: async (agentSessionId) => {
      const agent = ports.agent()
      if (!agent) return
      const hasMissed = isBusy() || (await readMissed(agent, agentSessionId)) !== undefined
      if (!hasMissed) return
      unseenIn = agentSessionId
      startNext()
    },
    showUnseen: (agent) => {
      if (unseenIn === undefined) return false
      void show(agent, unseenIn)
      return true
    },
  }
}

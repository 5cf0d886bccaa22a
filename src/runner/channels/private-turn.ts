/** A turn of the runner itself: it asks the model something (for a review) and gets the text; no frames are sent. */
import type { MintId } from "../opencode/client/types.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { answerText } from "../turn/text.ts"
import { defaultBudgets, newTurn } from "../turn/turn.ts"
import type { ReadyAgent } from "./channels.ts"
import type { Listener } from "./event-routing.ts"
import { type RunningTurn, runTurn } from "./turn-effects.ts"

export interface PrivateTurns {
  /** Creates an agent session, calls `use`, and deletes the session again. */
  readonly converse: <Result>(
    title: string,
    use: (ask: (text: string) => Promise<string>) => Promise<Result>,
  ) => Promise<Result>
  /** Running private turns: they too must be informed of a stream gap and of a lost OpenCode. */
  readonly turns: () => readonly RunningTurn[]
}

interface Options {
  readonly waitForAgent: () => Promise<ReadyAgent>
  readonly mint: MintId
  readonly subscribe: (agentSessionId: string, listener: Listener) => void
  readonly unsubscribe: (agentSessionId: string) => void
  readonly onIdle: () => void
  readonly clock: Clock
  readonly log: Log
}

/** A person can neither see nor stop a private turn, so its time is limited. */
const LIMIT_MS = 180_000

export const createPrivateTurns = (options: Options): PrivateTurns => {
  const running = new Set<RunningTurn>()
  return {
    turns: () => [...running],
    converse: async (title, use) => {
      const agent = await options.waitForAgent()
      const agentSessionId = await agent.client.createSession(title)
      try {
        return await use(async (text) => {
          const turn = askIn(options, agent, agentSessionId, text)
          running.add(turn)
          return textOfAnswer(turn).finally(() => {
            running.delete(turn)
            options.onIdle()
          })
        })
      } finally {
        options.unsubscribe(agentSessionId)
        await agent.client.deleteSession(agentSessionId).catch((error: unknown) => {
          options.log.warn("private-turn.not-deleted", { agentSessionId, error })
        })
      }
    },
  }
}

const textOfAnswer = async (turn: RunningTurn): Promise<string> => {
  const outcome = await turn.ended
  if (outcome.type === "error") throw new Error(outcome.error)
  if (outcome.type !== "ok") throw new Error("the model was stopped")
  return answerText(turn.state().texts) ?? ""
}

const askIn = (
  { mint, subscribe, clock, log }: Options,
  agent: ReadyAgent,
  agentSessionId: string,
  text: string,
): RunningTurn => {
  const userMessageId = mint("msg")
  const identity = {
    promptId: userMessageId,
    turnId: userMessageId,
    channelType: "private",
    channelId: agentSessionId,
    agentSessionId,
    userMessageId,
  }
  const running = runTurn({
    turn: newTurn(identity, {
      budgets: { ...defaultBudgets, total: LIMIT_MS },
      models: agent.defaultModel === undefined ? [] : [agent.defaultModel],
    }),
    posting: {
      kind: "prompt",
      body: { messageID: userMessageId, parts: [{ type: "text", id: mint("prt"), text }] },
    },
    client: agent.client,
    clock,
    log,
    send: () => {},
    onChange: () => {},
    onEnded: () => {},
  })
  subscribe(agentSessionId, {
    onEvent: (event) => {
      // No person can answer here; without a reply the model would wait until the limit.
      if (event.type === "question")
        void agent.client.rejectQuestion(event.requestId).catch(() => {})
      else running.dispatch({ type: "agent", event })
    },
  })
  running.dispatch({ type: "start" })
  return running
}

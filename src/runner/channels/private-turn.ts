/** A turn that nobody watches: the runner asks a model something for itself and gets the answer's text. */
import type { MintId } from "../opencode/client/types.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { answerText } from "../turn/text.ts"
import { defaultBudgets, newTurn } from "../turn/turn.ts"
import type { ReadyAgent } from "./channels.ts"
import type { Listener } from "./event-routing.ts"
import { type RunningTurn, runTurn } from "./turn-effects.ts"

export interface PrivateTurns {
  /** Opens a conversation of its own, has it used, and takes it away again. */
  readonly converse: <Result>(
    title: string,
    use: (ask: (text: string) => Promise<string>) => Promise<Result>,
  ) => Promise<Result>
  /** Those at work, so that they hear of a cut stream like any other. */
  readonly turns: () => readonly RunningTurn[]
}

interface Options {
  readonly agent: () => ReadyAgent | undefined
  readonly mint: MintId
  readonly listen: (sessionId: string, listener: Listener) => void
  readonly forget: (sessionId: string) => void
  readonly onIdle: () => void
  readonly clock: Clock
  readonly log: Log
}

/** Nobody can answer or stop it, so it may not take long. */
const LIMIT_MS = 180_000

export const createPrivateTurns = (options: Options): PrivateTurns => {
  const running = new Set<RunningTurn>()
  return {
    turns: () => [...running],
    converse: async (title, use) => {
      const agent = options.agent()
      if (!agent) throw new Error("OpenCode is not ready")
      const sessionId = await agent.client.createSession(title)
      try {
        return await use(async (text) => {
          const turn = askIn(options, agent, sessionId, text)
          running.add(turn)
          return answerOf(turn).finally(() => {
            running.delete(turn)
            options.onIdle()
          })
        })
      } finally {
        options.forget(sessionId)
        await agent.client.deleteSession(sessionId).catch((error: unknown) => {
          options.log.warn("private-turn.not-deleted", { sessionId, error })
        })
      }
    },
  }
}

const answerOf = async (turn: RunningTurn): Promise<string> => {
  const outcome = await turn.ended
  if (outcome.type === "error") throw new Error(outcome.error)
  if (outcome.type !== "ok") throw new Error("the model was stopped")
  return answerText(turn.now().texts) ?? ""
}

const askIn = (
  { mint, listen, clock, log }: Options,
  agent: ReadyAgent,
  sessionId: string,
  text: string,
): RunningTurn => {
  const userMessageId = mint("msg")
  const identity = {
    promptId: userMessageId,
    turnId: userMessageId,
    channelType: "private",
    channelId: sessionId,
    sessionId,
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
  listen(sessionId, {
    hear: (event) => {
      // Nobody is there to answer; without a word the model would wait for one until the limit.
      if (event.type === "question")
        void agent.client.rejectQuestion(event.requestId).catch(() => {})
      else running.tell({ type: "agent", event })
    },
  })
  running.tell({ type: "start" })
  return running
}

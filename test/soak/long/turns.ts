/** The kinds of turns of the long soak: what the model says for each, and the words that a client must see at its end. */
import {
  cut,
  httpError,
  reasoning,
  reply,
  type ScriptedModel,
  text,
  tool,
} from "../../kit/model.ts"

export interface PlannedTurn {
  readonly kind: string
  /** The words of a turn that ends as done. */
  readonly words: string
  /** True if the turn must end as failed, because the model refuses. */
  readonly mustFail: boolean
}

type Script = Parameters<ScriptedModel["on"]>[1]

interface Kind {
  readonly replies: (words: string, name: string) => Script
  readonly length: number
  readonly mustFail?: true
}

const kinds: Readonly<Record<string, Kind>> = {
  short: { length: 5, replies: (words) => [text(words)] },
  long: { length: 300, replies: (words) => [text(words, { chunks: 150, delayMs: 15 })] },
  thinking: {
    length: 20,
    replies: (words) => [reply(reasoning("Let me think. "), text(words, { chunks: 10 }))],
  },
  tool: {
    length: 20,
    replies: (words, name) => [
      tool("bash", { command: `echo ${name} >> soak.txt; sleep 1`, description: "write" }),
      text(words, { chunks: 10, delayMs: 20 }),
    ],
  },
  busy: { length: 10, replies: (words) => [httpError(503, { message: "busy" }), text(words)] },
  "cut off": { length: 40, replies: (words) => [cut(5), text(words, { chunks: 20 })] },
  refused: { length: 1, replies: () => [httpError(400, { message: "refused" })], mustFail: true },
}

export const kindNames = Object.keys(kinds)

/** A prompt that runs again after a fault gets the same words again. */
const REPEATS = 4

export const planTurn = (model: ScriptedModel, kindName: string, name: string): PlannedTurn => {
  const kind = kinds[kindName]
  if (!kind) throw new Error(`unknown kind ${kindName}`)
  const words = Array.from({ length: kind.length }, (_, at) => `${name}-${at} `).join("")
  const script = kind.replies(words, name)
  model.on(name, Array.from({ length: REPEATS }, () => script).flat())
  return { kind: kindName, words, mustFail: kind.mustFail === true }
}

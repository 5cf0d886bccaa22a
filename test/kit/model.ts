/** A model that replies exactly as a test scripts it, served to a real OpenCode over HTTP. */
import { isTitleRequest } from "../../src/demo/opencode-requests.ts"
import { providerConfig } from "../../src/demo/provider.ts"
import { type Reply, text } from "../../src/demo/reply.ts"
import { type ChatRequest, lastUserText, textOf } from "../../src/demo/request.ts"
import { startModelServer } from "../../src/demo/server.ts"

export {
  cut,
  eof,
  finish,
  hang,
  httpError,
  overflow,
  reasoning,
  reply,
  streamError,
  text,
  tool,
  tools,
  usage,
  waitFor,
} from "../../src/demo/reply.ts"

/**
 * A string is the name of a script: it matches a conversation in which a prompt contains `@@name@@`.
 * A regular expression is tested on the last prompt.
 */
type Matcher = string | RegExp | ((request: ChatRequest) => boolean)

export interface ScriptedModel {
  readonly url: string
  readonly apiKey: string
  /** OpenCode configuration of the provider `scripted` with the models m1, m2, m3 and small. */
  readonly config: ReturnType<typeof providerConfig>
  /** Every model call in order, including compactions; title calls are in `titleRequests`. */
  readonly requests: readonly ChatRequest[]
  readonly titleRequests: readonly ChatRequest[]
  /** Replies for conversations without a script name, one per model call. */
  readonly enqueue: (...replies: readonly Reply[]) => void
  /** Replies for matching calls, one per call; they take precedence over enqueued replies. */
  readonly on: (matcher: Matcher, replies: readonly Reply[]) => void
  readonly stop: () => Promise<void>
}

export async function startScriptedModel({
  title = "Scripted title",
  models: offered = MODELS,
  moreModels = [],
}: {
  /** The title of every conversation. */
  readonly title?: string
  /** Ids and names of the models; the first is the default. */
  readonly models?: Readonly<Record<string, string>>
  /** Further ids that the server lists. */
  readonly moreModels?: readonly string[]
} = {}): Promise<ScriptedModel> {
  const requests: ChatRequest[] = []
  const titleRequests: ChatRequest[] = []
  const queue: Reply[] = []
  const scripts: { readonly matcher: Matcher; readonly left: Reply[] }[] = []
  const nameOf = rememberNames()

  const respond = (request: ChatRequest): Reply => {
    if (isTitleRequest(request)) {
      titleRequests.push(request)
      return text(title)
    }
    requests.push(request)
    const name = nameOf(request)
    const script = scripts.find(
      ({ matcher, left }) => left.length > 0 && fits(matcher, request, name),
    )
    const next = script?.left.shift() ?? (name === undefined ? queue.shift() : undefined)
    return next ?? text("Nothing is scripted for this call.")
  }

  const models = [...Object.keys(offered), ...moreModels]
  const server = await startModelServer({ apiKey: API_KEY, models, respond })
  return {
    url: server.url,
    apiKey: API_KEY,
    config: providerConfig({
      id: "scripted",
      name: "Scripted model",
      url: server.url,
      apiKey: API_KEY,
      models: offered,
      smallModel: "small",
    }),
    requests,
    titleRequests,
    enqueue: (...replies) => void queue.push(...replies),
    on: (matcher, replies) => void scripts.push({ matcher, left: [...replies] }),
    stop: server.stop,
  }
}

const API_KEY = "scripted-key"
const MODELS = { m1: "M1", m2: "M2", m3: "M3", small: "Small" }

function fits(matcher: Matcher, request: ChatRequest, name: string | undefined): boolean {
  if (typeof matcher === "string") return matcher === name
  if (typeof matcher === "function") return matcher(request)
  return matcher.test(lastUserText(request))
}

/** The last script name of a conversation, stored by session because compaction may drop the prompt that contains it. */
function rememberNames(): (request: ChatRequest) => string | undefined {
  const names = new Map<string, string>()
  return ({ messages, agentSessionId: sessionId }) => {
    const prompts = messages.filter(({ role }) => role === "user").map(textOf)
    const name = prompts.flatMap((prompt) => [...prompt.matchAll(/@@([\w.-]+)@@/g)]).at(-1)?.[1]
    if (sessionId === undefined) return name
    if (name !== undefined) names.set(sessionId, name)
    return names.get(sessionId)
  }
}

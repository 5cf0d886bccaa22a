/** A model that says exactly what a test scripts, served to a real OpenCode over HTTP. */
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
} from "../../src/demo/reply.ts"

/**
 * A string is the name of a script: it matches a conversation in which a prompt says `@@name@@`.
 * An expression is tested on the last prompt.
 */
type Matcher = string | RegExp | ((request: ChatRequest) => boolean)

export interface ScriptedModel {
  readonly url: string
  readonly apiKey: string
  /** To be merged into OpenCode's configuration; the provider is `scripted`, its models m1, m2, m3 and small. */
  readonly config: ReturnType<typeof providerConfig>
  /** Every model call in order, a compaction's too; only the calls that ask for a title are apart. */
  readonly requests: readonly ChatRequest[]
  readonly titleRequests: readonly ChatRequest[]
  /** Replies for the conversations that name no script, one a model call. */
  readonly enqueue: (...replies: readonly Reply[]) => void
  /** Replies for the calls that match, one a call; they come before the ones enqueued. */
  readonly on: (matcher: Matcher, replies: readonly Reply[]) => void
  readonly stop: () => Promise<void>
}

export async function startScriptedModel(): Promise<ScriptedModel> {
  const requests: ChatRequest[] = []
  const titleRequests: ChatRequest[] = []
  const queue: Reply[] = []
  const scripts: { readonly matcher: Matcher; readonly left: Reply[] }[] = []
  const nameOf = rememberNames()

  const respond = (request: ChatRequest): Reply => {
    if (isTitleRequest(request)) {
      titleRequests.push(request)
      return text("Scripted title")
    }
    requests.push(request)
    const name = nameOf(request)
    const script = scripts.find(
      ({ matcher, left }) => left.length > 0 && fits(matcher, request, name),
    )
    const next = script?.left.shift() ?? (name === undefined ? queue.shift() : undefined)
    return next ?? text("Nothing is scripted for this call.")
  }

  const server = await startModelServer({ apiKey: API_KEY, models: Object.keys(MODELS), respond })
  return {
    url: server.url,
    apiKey: API_KEY,
    config: providerConfig({
      id: "scripted",
      name: "Scripted model",
      url: server.url,
      apiKey: API_KEY,
      models: MODELS,
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

/** The name last said in a conversation; compaction may drop the prompt that said it, so it is kept by session. */
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

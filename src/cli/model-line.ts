/** What the greeting says about the model: which one replies, where it was found, and how to choose another. Pure. */
import type { Endpoint } from "../runner/opencode/config/endpoints.ts"
import type { ToolSet } from "../wire/operations/tool-sets.ts"

export interface ModelFacts {
  /** `provider/model` that replies to prompts; undefined if there is none. */
  readonly model: string | undefined
  /** True if a flag or variable names the model. */
  readonly isChosen: boolean
  readonly isDemo: boolean
  readonly endpoints: readonly Endpoint[]
  /** Providers of the session's config in the hub. */
  readonly hubProviders: readonly string[]
  readonly project:
    | {
        readonly file: string
        readonly model: string | undefined
        readonly providers: readonly string[]
      }
    | undefined
  /** The file that a variable's value comes from, if it is not the environment. */
  readonly fileOf: (variable: string) => string | undefined
}

const DEMO = `No provider key is set and no local model was found, so a scripted demo model replies: it is not an LLM. Everything else is real.
Try:  run: ls -la   write: hello.txt   ask   plan   think   fail
For an LLM set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or OPENAI_BASE_URL for any compatible server, or start Ollama.`

const NONE =
  "No model replies: no connected provider has one. Set a provider key, OPENAI_BASE_URL or --model."

export const describeModel = (facts: ModelFacts): string => {
  const { model } = facts
  if (facts.isDemo && (model === undefined || model.startsWith("demo/"))) return DEMO
  if (model === undefined) return NONE
  const { place, change } = originOf(facts, model)
  const chosen = facts.isChosen ? ", named by --model or SANDPIPER_MODEL" : ""
  return `Model: ${model} ${place}${chosen}. ${change}`
}

const originOf = (
  { endpoints, hubProviders, project, fileOf }: ModelFacts,
  model: string,
): { readonly place: string; readonly change: string } => {
  const provider = model.slice(0, model.indexOf("/"))
  const endpoint = endpoints.find(({ providerId }) => providerId === provider)
  if (project?.model === model || (!endpoint && project?.providers.includes(provider)))
    return { place: `from ${project?.file}`, change: "Change it there, or with --model." }
  if (hubProviders.includes(provider))
    return { place: "from the hub's config of this session", change: "Choose with --model." }
  if (!endpoint)
    return { place: "from another OpenCode config", change: "Choose with --model provider/model." }
  const { source, baseUrl, models, isAssumed } = endpoint
  const change =
    models.length > 1 ? `${models.length} models are there: --model NAME.` : "Choose with --model."
  if (isAssumed) return { place: `from ${source}, found at ${baseUrl}`, change }
  const file = fileOf(source)
  const origin = file === undefined ? source : `${source} in ${file}`
  return { place: baseUrl === undefined ? `(${origin})` : `at ${baseUrl} (${origin})`, change }
}

export const describeTools = (set: ToolSet): string =>
  set === "all"
    ? "Tools: all."
    : `Tools: the set ${set}. --tools ${set === "core" ? "team or all" : "all"} offers more.`

/**
 * The size of the tools of each set in a request to a model, and how much a set may add to a request of OpenCode alone.
 * test/e2e/tool-sets.test.ts compares these figures with real requests.
 */
import { z } from "zod"
import {
  gitHostTools,
  type ToolSet,
  toolSets,
  toolsOffIn,
  workflowUseTools,
} from "../../src/wire/operations/tool-sets.ts"
import type { Tool } from "../../tools/tool.ts"
import { table } from "./markdown.ts"

/** Tokens, at four bytes each, that a session may add to the first request of OpenCode alone. */
export const tokenBudget: Readonly<Record<ToolSet, number>> = { core: 2000, team: 4500, all: 9000 }

/** What OpenCode sends of a schema: no limits of values, and every number is a `number`. */
const unsent = new Set(
  "$schema propertyNames minimum maximum minLength pattern minItems maxItems".split(" "),
)

const sent = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(sent)
  if (typeof schema !== "object" || schema === null) return schema === "integer" ? "number" : schema
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key, value]) => !unsent.has(key) && !isAnySchema(key, value))
      .map(([key, value]) => [key, key === "properties" ? sentProperties(value) : sent(value)]),
  )
}

const isAnySchema = (key: string, value: unknown): boolean =>
  key === "additionalProperties" && (value === false || Object.keys(Object(value)).length === 0)

const sentProperties = (properties: unknown): unknown =>
  Object.fromEntries(
    Object.entries(Object(properties)).map(([name, schema]) => [name, sent(schema)]),
  )

const bytesOfTool = (name: string, { description, args }: Tool): number => {
  const parameters = sent(z.toJSONSchema(z.object(args), { io: "input" }))
  const definition = { type: "function", function: { name, description, parameters } }
  return Buffer.byteLength(JSON.stringify(definition))
}

export interface SetSize {
  readonly set: ToolSet
  readonly tools: readonly string[]
  readonly each: readonly { readonly name: string; readonly bytes: number }[]
  /** Of the definitions of the tools in a request, with the commas between them. */
  readonly bytes: number
}

/** For a normal session that has everything its tools need. */
export const setSizes = (tools: Readonly<Record<string, Tool>>): readonly SetSize[] =>
  toolSets.map((set) => {
    const { optional, impossible } = toolsOffIn(set, new Set(["setup session"]))
    const off = new Set([...optional, ...impossible])
    const offered = Object.entries(tools).filter(([name]) => !off.has(name))
    const each = offered.map(([name, tool]) => ({ name, bytes: bytesOfTool(name, tool) + 1 }))
    const bytes = each.reduce((sum, tool) => sum + tool.bytes, 0)
    return { set, tools: offered.map(([name]) => name), each, bytes }
  })

/** The section of docs/tools.md about the sets. */
export const renderSets = (tools: Readonly<Record<string, Tool>>): string => {
  const sizes = setSizes(tools)
  const rows = sizes.map(({ set, tools: names, bytes }, index) => {
    const before = new Set(sizes[index - 1]?.tools)
    const added = names.filter((name) => !before.has(name)).toSorted()
    const list = added.map((name) => `\`${name}\``).join(" ")
    const tokens = Math.ceil(bytes / 4)
    return [`\`${set}\``, `${names.length}`, `${bytes}`, `${tokens}`, `${tokenBudget[set]}`, list]
  })
  const head = ["set", "tools", "bytes", "tokens", "budget", "adds"]
  return `## Sets

\`SANDPIPER_TOOLS\` (\`--tools\`) chooses what the model is offered. \`run\` uses \`all\`; \`up\` and \`serve\` use \`core\` with a model on a local
address and \`team\` otherwise. A session agent's config may turn single tools on and off.

${table(head, rows)}

Bytes are those of the definitions of our tools in a request, for a session that has everything its tools need; tokens are
bytes / 4. The budget is for all that a session adds to a request of OpenCode alone, with instructions and skills.
\`test/e2e/tool-sets.test.ts\` measures both in real requests.

- Off without their requirement: \`parallel_*\` (\`PARALLEL_API_KEY\`), and in \`core\` and \`team\` also \`secret_*\` (a source of
  secrets), \`browser_screenshot\` (\`agent-browser\`), \`notify_parent\` (a parent session). \`save_service_commands\` and \`save_env_files\` exist only with \`SESSION_KIND=setup\`.
- The hub of \`up\` turns off ${gitHostTools.map((name) => `\`${name}\``).join(", ")} if there is no git host, and turns on
  ${workflowUseTools.map((name) => `\`${name}\``).join(" and ")} if workflows are stored. The skill \`workflows\` says how to get the rest.`
}

/** Recorded streams of both event formats: every frame is parsed, and both give the same events. */
import { describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import type { AgentEvent } from "../../../../src/runner/opencode/events/events.ts"
import { parseAgentEvent } from "../../../../src/runner/opencode/events/parse-event.ts"

const root = join(import.meta.dir, "../../../fixtures/streams")
const scenariosOf = (version: string) => readdirSync(join(root, version)).toSorted()

const framesOf = (version: string, scenario: string) => framesIn(join(root, version, scenario))

const framesIn = async (file: string): Promise<readonly unknown[]> =>
  (await Bun.file(file).text())
    .split("\n")
    .filter((line) => line !== "")
    .map((line): { src: string; ev?: unknown } => JSON.parse(line))
    .flatMap(({ src, ev }) => (src === "global" ? [ev] : []))

const eventsOf = async (version: string, scenario: string): Promise<readonly AgentEvent[]> =>
  (await framesOf(version, scenario)).flatMap((frame) => {
    const parsed = parseAgentEvent(frame)
    return parsed.kind === "event" ? [parsed.event] : []
  })

describe.each(["1.18.33", "1.1.53"])("a recorded stream of OpenCode %s", (version) => {
  test.each(scenariosOf(version))(
    `every frame of %s recorded with OpenCode ${version} is parsed`,
    async (scenario) => {
      for (const frame of await framesOf(version, scenario)) {
        const parsed = parseAgentEvent(frame)
        if (parsed.kind === "malformed") throw new Error(`${parsed.type}: ${parsed.problem}`)
        if (parsed.kind === "unused")
          expect([parsed.type, parsed.known]).toEqual([parsed.type, true])
      }
    },
  )
})

test.each(["text.jsonl", "tool_bash.jsonl", "subtask.jsonl"])(
  "the durable copies in %s equal their events and have contiguous numbers",
  async (scenario) => {
    const events = new Map<string, AgentEvent>()
    const numbers = new Map<string, number>()
    for (const frame of await framesIn(
      join(import.meta.dir, "../../../fixtures/durable", scenario),
    )) {
      const parsed = parseAgentEvent(frame)
      if (parsed.kind === "event" && parsed.id !== undefined) events.set(parsed.id, parsed.event)
      if (parsed.kind !== "durable") continue
      expect(parsed.seq).toBe((numbers.get(parsed.agentSessionId) ?? parsed.seq - 1) + 1)
      numbers.set(parsed.agentSessionId, parsed.seq)
      expect(parsed.event).toEqual(events.get(parsed.id) as AgentEvent)
    }
    expect(numbers.size).toBeGreaterThan(0)
  },
)

/** The content of a stream without ids, times and the number of deltas. */
const contentOf = (events: readonly AgentEvent[]) => {
  const texts = new Map<string, string>()
  const tools = new Map<string, unknown>()
  const others: string[] = []
  const hidden = new Set<string>()
  for (const event of events) {
    if (event.type === "message" && event.message.role === "user") hidden.add(event.message.id)
    if (event.type === "part" && hidden.has(event.part.messageId)) continue
    if (event.type === "part" && event.part.kind === "text")
      texts.set(event.part.id, event.part.text)
    if (event.type === "part" && event.part.kind === "reasoning") {
      texts.set(event.part.id, `(${event.part.text})`)
    }
    if (event.type === "delta") {
      const before = texts.get(event.partId)
      if (before !== undefined && !before.startsWith("("))
        texts.set(event.partId, before + event.delta)
    }
    if (event.type === "part" && event.part.kind === "tool") {
      const { tool, status, input } = event.part
      // The error for an unknown tool lists the known tools in an unstable order.
      tools.set(event.part.callId, { tool, status, ...(tool !== "invalid" && { input }) })
    }
    if (event.type === "question")
      others.push(`asks ${event.questions.map(({ text }) => text).join()}`)
    if (event.type === "question-closed") others.push("question closed")
    if (event.type === "permission") others.push(`permission ${event.title}`)
    if (event.type === "error") others.push(`${event.error.name} ${event.error.statusCode ?? ""}`)
    if (event.type === "todo") others.push(JSON.stringify(event.items))
  }
  const shown = [...texts.values()].map((text) => text.trim()).filter((text) => text !== "")
  return { texts: shown.toSorted(), tools: [...tools.values()], others: [...new Set(others)] }
}

describe("both event formats", () => {
  // Where the versions behave differently (retries, compaction, titles of sub-agents) there is nothing to compare.
  const same = [
    "text.jsonl",
    "reasoning.jsonl",
    "tool_bash.jsonl",
    "tool_error.jsonl",
    "question_reply.jsonl",
    "question_reject.jsonl",
    "permission_once.jsonl",
    "todo.jsonl",
    "err_401.jsonl",
    "abort_stream.jsonl",
    "err_429_then_ok.jsonl",
    "err_500_then_ok.jsonl",
  ]
  test.each(same)("%s has the same content in both event formats", async (scenario) => {
    const [older, newer] = await Promise.all([
      eventsOf("1.1.53", scenario),
      eventsOf("1.18.33", scenario),
    ])
    expect(contentOf(newer)).toEqual(contentOf(older))
    expect(contentOf(newer)).not.toEqual({ texts: [], tools: [], others: [] })
  })
})

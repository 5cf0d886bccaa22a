/** The turn machine against every recording of the real OpenCode, with faults at random points. */
import { describe, expect, test } from "bun:test"
import { array, assert, constantFrom, nat, property } from "fast-check"
import type { Outbound } from "../../../src/wire/frames/index.ts"
import { createStore, type RecordedPrompt, recordings } from "./recorded.ts"
import { type Run, simulate } from "./simulation.ts"

const RUNS = 20_000
const seed = Date.now() % 2 ** 31

const framesOf = <Type extends Run["frames"][number]["type"]>(run: Run, type: Type) =>
  run.frames.filter((frame): frame is Outbound<Type> => frame.type === type)

/** The answer as OpenCode stores it: the text of each message after its last `step-start`. */
const storedAnswer = (prompt: RecordedPrompt): ReadonlyMap<string, string> => {
  const store = createStore(prompt)
  for (const recorded of prompt.events) store.apply(recorded)
  const parents = new Set<string>([prompt.userMessageId])
  const answer = new Map<string, string>()
  let asked = false
  for (const { message, parts } of store.snapshot().messages) {
    if (message.id === prompt.userMessageId) asked = true
    if (message.role === "user" && asked) parents.add(message.id)
    if (message.role === "user" || message.isSummary || !parents.has(message.parentId ?? ""))
      continue
    const last = parts.findLastIndex((part) => part.kind === "other" && part.type === "step-start")
    for (const part of parts.slice(Math.max(0, last))) {
      if (part.kind === "text" && !part.synthetic) answer.set(part.id, part.text)
    }
  }
  return answer
}

/** The words of sub-agents as OpenCode stores them. */
const storedChildTexts = (prompt: RecordedPrompt): ReadonlyMap<string, string> => {
  const store = createStore(prompt)
  for (const recorded of prompt.events) store.apply(recorded)
  const replies = store
    .snapshot()
    .children.filter(({ message }) => message.role === "assistant" && !message.isSummary)
  return new Map(
    replies
      .flatMap(({ parts }) => parts)
      .flatMap((part) =>
        part.kind === "text" && !part.synthetic
          ? [[`${part.agentSessionId}/${part.id}`, part.text] as const]
          : [],
      ),
  )
}

const byName = new Map(recordings.map((prompt) => [prompt.name, prompt]))
const answers = new Map(recordings.map((prompt) => [prompt, storedAnswer(prompt)]))
const childTexts = new Map(recordings.map((prompt) => [prompt, storedChildTexts(prompt)]))

/** Old versions of OpenCode do not store the trailing whitespace that they streamed. */
const comparable = (prompt: RecordedPrompt, text: string): string =>
  prompt.isOld ? text.replaceAll(/\s+/g, "") : text

const textByPart = (run: Run): ReadonlyMap<string, string> => {
  const texts = new Map<string, string>()
  for (const { partId = "", delta } of framesOf(run, "message.part.text-delta")) {
    texts.set(partId, (texts.get(partId) ?? "") + delta)
  }
  for (const { droppedParts = [] } of framesOf(run, "retry")) {
    for (const id of droppedParts) texts.delete(id)
  }
  return texts
}

/** In `err_chunk_timeout` the provider hangs until an abort: which parts are dropped depends on the retries received. */
const isExact = ({ name }: RecordedPrompt): boolean => !name.includes("err_chunk_timeout")

const check = (prompt: RecordedPrompt, run: Run): void => {
  expect(run.turn.phase).toBe("ended")
  expect(run.outcomes).toHaveLength(1)
  const creates = framesOf(run, "message.create")
  const finals = framesOf(run, "message.finalize")
  expect(creates.length).toBeLessThanOrEqual(1)
  expect(finals).toHaveLength(creates.length)
  expect(framesOf(run, "complete")).toHaveLength(1)
  expect(run.frames.at(-1)).toMatchObject({ type: "agentStatus", status: "idle" })
  for (const frame of run.frames) {
    expect(frame).toMatchObject({ messageId: "prompt-1", channelType: "web", channelId: "default" })
  }
  const ended = new Set<string>()
  for (const { callId, childSessionId, status } of framesOf(run, "message.part.tool-update")) {
    const call = `${childSessionId ?? ""}/${callId}`
    expect(ended.has(call)).toBe(false)
    if (status === "completed" || status === "error") ended.add(call)
  }
  const final = finals[0]
  if (!final || !isExact(prompt)) return
  const stored = answers.get(prompt) ?? new Map<string, string>()
  const sent = textByPart(run)
  const ofChildren = childTexts.get(prompt) ?? new Map<string, string>()
  for (const [id, text] of [...stored, ...ofChildren]) {
    expect(comparable(prompt, sent.get(id) ?? "")).toBe(comparable(prompt, text))
  }
  expect([...sent.keys()].filter((id) => !stored.has(id) && !ofChildren.has(id))).toEqual([])
  expect(comparable(prompt, final.finalText ?? "")).toBe(
    comparable(prompt, [...stored.values()].join("")),
  )
  if (run.isBroken) return
  const joined = framesOf(run, "message.part.text-delta").flatMap(({ delta, childSessionId }) =>
    childSessionId === undefined ? [delta] : [],
  )
  if (framesOf(run, "retry").length === 0) expect(joined.join("")).toBe(final.finalText ?? "")
}

describe("recorded streams", () => {
  test("there are recordings with words of sub-agents", () => {
    expect([...childTexts.values()].filter(({ size }) => size > 0).length).toBeGreaterThan(1)
  })

  test("there are recordings of both dialects of the event stream", () => {
    expect(recordings.filter(({ isOld }) => isOld).length).toBeGreaterThan(15)
    expect(recordings.filter(({ isOld }) => !isOld).length).toBeGreaterThan(15)
  })

  for (const prompt of recordings) {
    test(`the recording ${prompt.name} ends once with the text that OpenCode stored`, () => {
      check(prompt, simulate(prompt, [0], { cut: 0, kill: 0, repeat: 0 }))
    })
  }

  test(`every recording ends once and complete with cuts, kills and repeated events (seed ${seed})`, () => {
    const tape = array(nat(11_999), { minLength: 1, maxLength: 60 })
    assert(
      property(constantFrom(...byName.keys()), tape, (name, numbers) => {
        const prompt = byName.get(name)
        if (prompt) check(prompt, simulate(prompt, numbers))
      }),
      { numRuns: RUNS, seed },
    )
  })
})

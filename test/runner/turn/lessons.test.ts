/** Ways in which a runner of agents has gone wrong before; each is one test that says how this one does not. */
import { describe, expect, test } from "bun:test"
import { changedTexts, changedTurn, restoreTurn } from "../../../src/runner/turn/turn-record.ts"
import { step } from "../../../src/runner/turn/step.ts"
import {
  assistant,
  done,
  PROMPT,
  say,
  SESSION,
  start,
  stepStart,
  textPart,
  toolPart,
  user,
} from "./build.ts"

const MODELS = { models: ["a/one", "b/two"] }
const unauthorized = { name: "APIError", message: "no key", statusCode: 401, isRetryable: false }

describe("the end of a turn", () => {
  test("L-29: a message that completes does not end it; a tool call after it still counts", () => {
    const turn = start()
    turn.hear(say.message(user()), say.message(assistant("m1")), say.message(done("m1")))
    expect(turn.outcome()).toBeUndefined()
    turn.hear(say.message(assistant("m2")), say.part(toolPart("m2", "c1", "running")))
    expect(turn.sent("message.part.tool-update")).toHaveLength(1)
  })

  test("L-30: what the stream missed is read, and said before the end", () => {
    const turn = start()
    turn.hear(say.message(user()), say.message(done("m1")), say.idle())
    expect(turn.did("read")).toHaveLength(1)
    turn.read([
      { message: user(), parts: [] },
      { message: done("m1"), parts: [textPart("m1", "p1", "all of it", true)] },
    ])
    const types = turn.frames().map(({ type }) => type)
    expect(types.slice(-4)).toEqual([
      "message.part.text-delta",
      "message.finalize",
      "complete",
      "agentStatus",
    ])
    expect(turn.sent("message.finalize")[0]?.finalText).toBe("all of it")
  })

  test("L-30: an idle that was missed is found by the look after a gap", () => {
    const turn = start()
    turn.hear(say.message(user()), say.message(assistant("m1")), say.part(textPart("m1", "p1")))
    turn.tell({ type: "gap" })
    turn.read([{ message: done("m1"), parts: [textPart("m1", "p1", "done", true)] }], "gap")
    expect(turn.outcome()).toEqual({ type: "ok" })
  })

  test("L-31: there is one terminal transition; what comes after it changes nothing", () => {
    const turn = start()
    turn.hear(say.message(done("m1")), say.part(textPart("m1", "p1", "x", true)), say.idle())
    const snapshot = [{ message: done("m1"), parts: [textPart("m1", "p1", "x", true)] }]
    turn.read(snapshot)
    const ended = turn.turn()
    turn.read(snapshot)
    turn.hear(say.idle(), say.error(unauthorized))
    turn.tell({ type: "stop", reason: "late" })
    turn.tell({ type: "agent-lost", error: "late" })
    turn.tell({ type: "timer", name: "total" })
    expect(turn.turn()).toBe(ended)
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("an idle while a message is open is not the end: OpenCode says one too early on errors", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.error(unauthorized), say.idle())
    expect(turn.did("read")).toHaveLength(0)
    turn.hear(say.message(done("m1", { error: unauthorized })), say.idle())
    expect(turn.did("read")).toHaveLength(1)
  })

  test("a prompt that OpenCode took and forgot is posted again, the same, and in the end given up", () => {
    const turn = start()
    for (let tries = 0; tries < 3; tries += 1) {
      turn.tell({ type: "timer", name: "look" })
      turn.read([{ message: user(), parts: [] }], "look")
    }
    expect(turn.did("post")).toHaveLength(3)
    expect(turn.outcome()).toEqual({
      type: "error",
      error: "OpenCode took the prompt but did not answer it",
    })
  })
})

describe("text", () => {
  test("L-33: after a gap deltas wait for the whole text, so there is no hole", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1")))
    turn.hear(say.delta("m1", "p1", "one "))
    turn.tell({ type: "gap" })
    const stored = [{ message: assistant("m1"), parts: [textPart("m1", "p1", "")] }]
    turn.read(stored, "gap", { type: "busy" })
    turn.hear(say.delta("m1", "p1", "three "))
    turn.hear(say.part(textPart("m1", "p1", "one two three ", true)))
    const deltas = turn.sent("message.part.text-delta").map(({ delta }) => delta)
    expect(deltas).toEqual(["one ", "two three "])
  })

  describe("that comes while what the stream missed is read", () => {
    const missed = [{ message: done("m1"), parts: [textPart("m1", "p1", "first ", true)] }]
    const late = () => {
      const turn = start()
      turn.hear(say.message(assistant("m1")))
      turn.tell({ type: "gap" })
      turn.hear(say.message(assistant("m2")), say.part(textPart("m2", "p2")))
      turn.hear(say.delta("m2", "p2", "second "))
      return turn
    }
    const words = (turn: ReturnType<typeof late>) =>
      turn.sent("message.part.text-delta").map(({ delta }) => delta)

    test("is said after it", () => {
      const turn = late()
      expect(words(turn)).toEqual([])
      const begun = { message: assistant("m2"), parts: [textPart("m2", "p2", "")] }
      turn.read([...missed, begun], "gap", { type: "busy" })
      turn.hear(say.delta("m2", "p2", "third"))
      expect(words(turn)).toEqual(["first ", "second ", "third"])
    })

    test("waits for the last of several reads, and for a second one when the first fails", () => {
      const turn = late()
      turn.tell({ type: "gap" })
      turn.read([], "gap", { type: "busy" })
      turn.tell({ type: "read-failed", why: "gap", error: "no answer" })
      expect(words(turn)).toEqual([])
      turn.read(missed, "recheck", { type: "busy" })
      expect(words(turn)).toEqual(["first ", "second "])
    })

    test("is said when the turn ends without an answer to the read", () => {
      const turn = late()
      turn.tell({ type: "agent-lost", error: "OpenCode ended" })
      expect(words(turn)).toEqual(["second "])
      expect(turn.sent("message.finalize")).toMatchObject([{ finalText: "second " }])
    })

    test("is told again by OpenCode when the runner dies with it", () => {
      const turn = late()
      turn.hear(say.part(textPart("m2", "p2", "second ", true)))
      const saved = changedTurn(turn.turn(), undefined)
      if (!saved) throw new Error("nothing was saved")
      const restored = restoreTurn(saved, changedTexts(turn.turn(), undefined))
      const [waiting] = step(restored, { type: "resume" }, 20_000)
      const messages = [
        ...missed,
        { message: done("m2"), parts: [textPart("m2", "p2", "second ", true)] },
      ]
      const snapshot = { status: { type: "idle" as const }, messages, children: [] }
      const [, effects] = step(waiting, { type: "read", why: "resume", snapshot }, 20_000)
      const said = effects.flatMap((effect) =>
        effect.do === "send" && effect.frame.type === "message.part.text-delta"
          ? [effect.frame.delta]
          : [],
      )
      expect(said).toEqual(["first ", "second "])
    })
  })

  test("L-34: every delta names its part, and a snapshot of an earlier part says nothing again", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1", "before", true)))
    turn.hear(say.part(toolPart("m1", "c1", "completed")), say.message(done("m1")))
    turn.hear(say.message(assistant("m2")), say.part(textPart("m2", "p2", "after", true)))
    turn.hear(say.part(textPart("m1", "p1", "before", true)))
    expect(
      turn.sent("message.part.text-delta").map(({ partId, delta }) => [partId, delta]),
    ).toEqual([
      ["p1", "before"],
      ["p2", "after"],
    ])
  })

  test("L-35: the final text is all text of the turn, not only what came after the last tool", () => {
    const turn = start()
    turn.hear(say.message(done("m1")), say.part(textPart("m1", "p1", "before, ", true)))
    turn.hear(say.part(toolPart("m1", "c1", "completed")))
    turn.hear(say.message(done("m2")), say.part(textPart("m2", "p2", "after", true)), say.idle())
    turn.read([])
    expect(turn.sent("message.finalize")[0]?.finalText).toBe("before, after")
  })

  test("L-36: growing snapshots and deltas give the same frames", () => {
    const grown = start()
    grown.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1", "a")))
    grown.hear(say.part(textPart("m1", "p1", "ab")), say.part(textPart("m1", "p1", "ab", true)))
    const streamed = start()
    streamed.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1")))
    streamed.hear(say.delta("m1", "p1", "a"), say.delta("m1", "p1", "b"))
    streamed.hear(say.part(textPart("m1", "p1", "ab", true)))
    expect(grown.frames()).toEqual(streamed.frames())
  })

  test("a second beginning in the same message voids the first, and names what is void", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(stepStart("m1", "s1")))
    turn.hear(say.part(textPart("m1", "p1")), say.delta("m1", "p1", "half"))
    turn.hear(say.part(stepStart("m1", "s2")), say.part(textPart("m1", "p2", "whole", true)))
    expect(turn.sent("retry").flatMap(({ droppedParts }) => droppedParts)).toEqual(["p1"])
    turn.hear(say.message(done("m1")), say.idle())
    turn.read([
      {
        message: done("m1"),
        parts: [
          stepStart("m1", "s1"),
          textPart("m1", "p1"),
          stepStart("m1", "s2"),
          textPart("m1", "p2", "whole", true),
        ],
      },
    ])
    expect(turn.sent("message.finalize")[0]?.finalText).toBe("whole")
    expect(turn.sent("retry")).toHaveLength(1)
  })
})

describe("status and time", () => {
  test("L-37: an idle of OpenCode between two steps is not told", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.idle(), say.idle())
    expect(turn.sent("agentStatus").map(({ status }) => status)).toEqual(["thinking"])
  })

  test("L-38: an open message is no sign of life of the model; a part is", () => {
    const silent = start()
    silent.hear(say.message(assistant("m1")))
    silent.tell({ type: "timer", name: "first-event" })
    expect(silent.turn().stopped).toEqual({ by: "budget", reason: "no answer within 90 s" })
    const alive = start()
    alive.hear(say.message(assistant("m1")), say.part(stepStart("m1", "s1")))
    alive.tell({ type: "timer", name: "first-event" })
    expect(alive.turn().stopped).toBeUndefined()
  })

  test("L-38: silence is no failure while a tool runs, a person is asked or a sub-agent works", () => {
    const running = start()
    running.hear(say.message(assistant("m1")), say.part(toolPart("m1", "c1", "running")))
    running.wait(600_000)
    running.tell({ type: "timer", name: "progress" })
    expect(running.turn().stopped).toBeUndefined()
    const asking = start()
    asking.hear(say.message(assistant("m1")), {
      type: "question",
      agentSessionId: SESSION,
      requestId: "q1",
      questions: [{ text: "?", options: [], multiple: false }],
    })
    asking.wait(600_000)
    asking.tell({ type: "timer", name: "progress" })
    expect(asking.turn().stopped).toBeUndefined()
    const delegating = start()
    delegating.hear(say.message(assistant("m1")))
    delegating.wait(290_000)
    delegating.hear(say.part({ ...toolPart("cm1", "c2", "running"), agentSessionId: "ses_child" }))
    delegating.hear(
      say.part({ ...toolPart("cm1", "c2", "completed"), agentSessionId: "ses_child" }),
    )
    delegating.wait(20_000)
    delegating.tell({ type: "timer", name: "progress" })
    expect(delegating.turn().stopped).toBeUndefined()
  })

  test("L-38: real silence ends the turn with the reason, once OpenCode has stopped", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1", "well")))
    turn.wait(300_001)
    turn.tell({ type: "timer", name: "progress" })
    expect(turn.did("abort")).toHaveLength(1)
    expect(turn.outcome()).toBeUndefined()
    turn.hear(say.message(done("m1")), say.idle())
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "error", error: "no progress for 300 s" })
  })
})

describe("stopping", () => {
  test("L-39: a turn that has ended by itself is not aborted: the abort would hit the next prompt", () => {
    const turn = start()
    turn.hear(say.message(done("m1")), say.part(textPart("m1", "p1", "x", true)), say.idle())
    turn.tell({ type: "stop", reason: "too late" })
    expect(turn.did("abort")).toHaveLength(0)
  })

  test("L-40: the reason is noted before OpenCode is told, so an abort is never taken for a failure", () => {
    const turn = start(MODELS)
    turn.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1", "half")))
    turn.tell({ type: "stop", reason: "stopped by the user" })
    const aborted = { name: "MessageAbortedError", message: "Aborted" }
    turn.hear(
      say.error(aborted),
      say.idle(),
      say.message(done("m1", { error: aborted })),
      say.idle(),
    )
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "canceled", reason: "stopped by the user" })
    expect(turn.sent("message.finalize")).toMatchObject([{ reason: "canceled", finalText: "half" }])
    expect(turn.sent("model-switched")).toEqual([])
  })

  test("L-41: a turn is not over while OpenCode still works: it is told again", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")))
    turn.tell({ type: "stop", reason: "enough" })
    turn.tell({ type: "timer", name: "recheck" })
    turn.read([{ message: assistant("m1"), parts: [] }], "recheck", { type: "busy" })
    expect(turn.outcome()).toBeUndefined()
    expect(turn.did("abort")).toHaveLength(2)
  })

  test("L-41: a stop before the answer began is believed only after several looks", () => {
    const turn = start()
    turn.tell({ type: "stop", reason: "enough" })
    turn.read([{ message: user(), parts: [] }], "recheck")
    expect(turn.outcome()).toBeUndefined()
    turn.read([{ message: user(), parts: [] }], "recheck")
    turn.read([{ message: user(), parts: [] }], "recheck")
    expect(turn.outcome()).toEqual({ type: "canceled", reason: "enough" })
  })

  test("L-42: a tool that waits ends as OpenCode ends it: no abort, no forced end", () => {
    const turn = start()
    const waits = { ...toolPart("m1", "c1", "running"), tool: "wait_for_event" }
    turn.hear(say.message(assistant("m1")), say.part(waits))
    turn.wait(3_600_000)
    turn.tell({ type: "timer", name: "progress" })
    expect(turn.did("abort")).toHaveLength(0)
    turn.hear(say.part({ ...toolPart("m1", "c1", "completed"), tool: "wait_for_event" }))
    turn.hear(say.message(done("m1", { finish: "stop" })), say.idle())
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "ok" })
  })
})

describe("another model", () => {
  test("L-44: the attempt that failed is closed, and the next is a turn of its own", () => {
    const turn = start(MODELS)
    turn.hear(say.message(assistant("m1")), say.part(textPart("m1", "p1", "I am", false)))
    turn.hear(say.message(done("m1", { error: unauthorized })), say.idle())
    turn.read([{ message: done("m1", { error: unauthorized }), parts: [] }])
    expect(turn.sent("message.finalize")).toMatchObject([{ turnId: "t1", reason: "error" }])
    turn.hear(say.message(assistant("m2")), say.part(textPart("m2", "p2", "here", true)))
    expect(turn.sent("message.create").map(({ turnId }) => turnId)).toEqual(["t1", "t1.2"])
    turn.hear(say.message(done("m2")), say.idle())
    turn.read([
      { message: done("m1", { error: unauthorized }), parts: [textPart("m1", "p1", "I am", true)] },
      { message: done("m2"), parts: [textPart("m2", "p2", "here", true)] },
    ])
    expect(turn.sent("message.finalize")[1]).toMatchObject({ turnId: "t1.2", finalText: "here" })
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("L-45: a tool still running at the end is canceled, never completed", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(toolPart("m1", "c1", "running")))
    turn.tell({ type: "agent-lost", error: "OpenCode exited" })
    expect(turn.sent("message.part.tool-update").at(-1)).toMatchObject({
      status: "error",
      error: "canceled",
    })
  })

  test("a turn that is being stopped when OpenCode goes away was stopped, and has not failed", () => {
    const turn = start()
    turn.hear(say.message(assistant("m1")), say.part(toolPart("m1", "c1", "running")))
    turn.tell({ type: "stop", reason: "the runner is shutting down" })
    turn.tell({ type: "agent-lost", error: "OpenCode exited" })
    expect(turn.sent("message.finalize")).toMatchObject([{ reason: "canceled" }])
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("L-46: the error names every model that was tried, and only those", () => {
    const turn = start(MODELS)
    const refuse = (id: string) => {
      turn.hear(say.message(done(id, { error: unauthorized })), say.idle())
      turn.read([])
    }
    refuse("m1")
    refuse("m2")
    expect(turn.outcome()).toEqual({
      type: "error",
      error: "no model could answer. a/one: no key; b/two: no key",
    })
  })

  test("L-47: the model is explicit in every post", () => {
    const turn = start(MODELS)
    expect(turn.did("post")).toEqual([{ do: "post", model: "a/one" }])
  })

  test("is not asked once a tool has run, not even a sub-agent's", () => {
    const turn = start(MODELS)
    turn.hear(say.message(assistant("m1")))
    turn.hear(say.part({ ...toolPart("cm1", "c9", "running"), agentSessionId: "ses_child" }))
    turn.hear(say.message(done("m1", { error: unauthorized })), say.idle())
    turn.read([])
    expect(turn.sent("model-switched")).toEqual([])
    expect(turn.outcome()?.type).toBe("error")
  })

  test("is asked at the first sign that OpenCode would wait", () => {
    const turn = start(MODELS)
    turn.hear(say.message(assistant("m1")), say.retry(1, 99_000, "rate limit"))
    expect(turn.did("abort")).toHaveLength(1)
    turn.hear(say.message(done("m1")), say.idle())
    turn.read([])
    expect(turn.sent("model-switched")).toMatchObject([{ reason: "rate limit", toModel: "b/two" }])
  })
})

test("L-48: usage is told in raw buckets, cache reads included, once for each message", () => {
  const usage = { input: 1, output: 2, reasoning: 3, cacheRead: 80_000, cacheWrite: 5 }
  const turn = start()
  turn.hear(say.message(done("m1", { usage, model: "a/one" })))
  turn.hear(say.message(done("m1", { usage, model: "a/one" })))
  expect(turn.sent("usage")).toMatchObject([{ model: "a/one", ...usage }])
})

describe("whose message it is", () => {
  test("an answer to somebody else's message is not ours", () => {
    const turn = start()
    turn.hear(say.message(user()), say.message(done("m1", { parentId: "msg_other" })))
    turn.hear(say.part(textPart("m1", "p1", "not ours", true)))
    expect(turn.sent("message.part.text-delta")).toEqual([])
  })

  test("after a compaction the answer to OpenCode's own message is ours, its summary is not shown", () => {
    const turn = start()
    turn.hear(say.message(user(PROMPT, 1000)), say.message(user("msg_own", 1500)))
    turn.hear(say.message(assistant("m1", { parentId: "msg_own", isSummary: true })))
    turn.hear(say.part(textPart("m1", "p1", "## Goal", true)))
    turn.hear(say.message(assistant("m2", { parentId: "msg_own" })))
    turn.hear(say.part(textPart("m2", "p2", "answer", true)))
    expect(turn.sent("message.part.text-delta").map(({ delta }) => delta)).toEqual(["answer"])
  })

  test("a message older than the prompt is never ours", () => {
    const turn = start()
    turn.hear(say.message(user(PROMPT, 1000)), say.message(user("msg_old", 500)))
    turn.hear(say.message(assistant("m1", { parentId: "msg_old" })))
    expect(turn.turn().messages).toEqual([])
  })
})

describe("permissions", () => {
  const asked = {
    type: "permission",
    agentSessionId: "ses_child",
    permissionId: "per_1",
    title: "bash",
    patterns: ["ls"],
  } as const

  test("are allowed once when nobody is to be asked, a sub-agent's too", () => {
    const turn = start()
    turn.hear(asked)
    expect(turn.did("reply-permission")).toEqual([
      { do: "reply-permission", permissionId: "per_1", reply: "once" },
    ])
    expect(turn.sent("permission")).toEqual([])
  })

  test("that are open when the turn ends are refused", () => {
    const turn = start({ relayPermissions: true })
    turn.hear(asked)
    turn.tell({ type: "agent-lost", error: "gone" })
    expect(turn.did("reply-permission")).toMatchObject([{ reply: "reject" }])
  })
})

test("a turn that comes back to an OpenCode that knows nothing of it ends with an error, not with silence", () => {
  const turn = start()
  turn.hear(say.message(user()), say.message(assistant("m1")), say.part(textPart("m1", "p1")))
  turn.hear(say.delta("m1", "p1", "half"))
  const saved = changedTurn(turn.turn(), undefined)
  if (!saved) throw new Error("unreachable")
  const restored = restoreTurn(saved, changedTexts(turn.turn(), undefined))
  const [resumed] = step(restored, { type: "resume" }, 20_000)
  const snapshot = {
    status: { type: "idle" },
    messages: [
      { message: user(), parts: [] },
      { message: assistant("m1"), parts: [textPart("m1", "p1")] },
    ],
    children: [],
  } as const
  const [waiting] = step(resumed, { type: "read", why: "resume", snapshot }, 20_000)
  const [, effects] = step(waiting, { type: "read", why: "recheck", snapshot }, 22_000)
  const sent = effects.flatMap((effect) => (effect.do === "send" ? [effect.frame] : []))
  expect(sent.map(({ type }) => type)).toEqual(["message.finalize", "complete", "agentStatus"])
  expect(sent[0]).toMatchObject({ reason: "error", error: "OpenCode was stopped in mid-turn" })
  // Half an answer must not pass for all of it: its words are the receiver's to keep.
  expect(sent[0]).not.toHaveProperty("finalText")
})

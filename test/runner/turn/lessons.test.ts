/** Known failures of runners of this kind (docs/decisions/turn-lessons.md): each test shows that this one avoids it. */
import { describe, expect, test } from "bun:test"
import { changedTexts, changedTurn, restoreTurn } from "../../../src/runner/turn/turn-record.ts"
import { step } from "../../../src/runner/turn/step.ts"
import {
  assistant,
  done,
  PROMPT,
  events,
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
  test("L-29: a completed message does not end the turn; a later tool call is still sent", () => {
    const turn = start()
    turn.receive(
      events.message(user()),
      events.message(assistant("m1")),
      events.message(done("m1")),
    )
    expect(turn.outcome()).toBeUndefined()
    turn.receive(events.message(assistant("m2")), events.part(toolPart("m2", "c1", "running")))
    expect(turn.sent("message.part.tool-update")).toHaveLength(1)
  })

  test("L-30: text that the stream missed is read and sent before the turn ends", () => {
    const turn = start()
    turn.receive(events.message(user()), events.message(done("m1")), events.idle())
    expect(turn.requested("read")).toHaveLength(1)
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

  test("L-30: an idle event that was missed is detected by the read after a stream gap", () => {
    const turn = start()
    turn.receive(
      events.message(user()),
      events.message(assistant("m1")),
      events.part(textPart("m1", "p1")),
    )
    turn.dispatch({ type: "stream-gap" })
    turn.read([{ message: done("m1"), parts: [textPart("m1", "p1", "done", true)] }], "stream-gap")
    expect(turn.outcome()).toEqual({ type: "ok" })
  })

  test("L-31: a turn has one terminal transition, and later events change nothing", () => {
    const turn = start()
    turn.receive(
      events.message(done("m1")),
      events.part(textPart("m1", "p1", "x", true)),
      events.idle(),
    )
    const snapshot = [{ message: done("m1"), parts: [textPart("m1", "p1", "x", true)] }]
    turn.read(snapshot)
    const ended = turn.turn()
    turn.read(snapshot)
    turn.receive(events.idle(), events.error(unauthorized))
    turn.dispatch({ type: "stop", reason: "late" })
    turn.dispatch({ type: "agent-lost", error: "late" })
    turn.dispatch({ type: "timer", name: "total" })
    expect(turn.turn()).toBe(ended)
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("an idle event while a message is open does not end the turn, since OpenCode sends it too early on errors", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.error(unauthorized), events.idle())
    expect(turn.requested("read")).toHaveLength(0)
    turn.receive(events.message(done("m1", { error: unauthorized })), events.idle())
    expect(turn.requested("read")).toHaveLength(1)
  })

  test("a prompt that OpenCode accepts but does not start is posted three times and then fails", () => {
    const turn = start()
    for (let tries = 0; tries < 3; tries += 1) {
      turn.dispatch({ type: "timer", name: "post-check" })
      turn.read([{ message: user(), parts: [] }], "post-check")
    }
    expect(turn.requested("post")).toHaveLength(3)
    expect(turn.outcome()).toEqual({
      type: "error",
      error: "OpenCode accepted the prompt but did not start it",
    })
  })
})

describe("text", () => {
  test("L-33: after a stream gap deltas are ignored until the whole text arrives, so no text is lost", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1")))
    turn.receive(events.delta("m1", "p1", "one "))
    turn.dispatch({ type: "stream-gap" })
    const stored = [{ message: assistant("m1"), parts: [textPart("m1", "p1", "")] }]
    turn.read(stored, "stream-gap", { type: "busy" })
    turn.receive(events.delta("m1", "p1", "three "))
    turn.receive(events.part(textPart("m1", "p1", "one two three ", true)))
    const deltas = turn.sent("message.part.text-delta").map(({ delta }) => delta)
    expect(deltas).toEqual(["one ", "two three "])
  })

  describe("text that arrives during the read after a stream gap", () => {
    const missed = [{ message: done("m1"), parts: [textPart("m1", "p1", "first ", true)] }]
    const late = () => {
      const turn = start()
      turn.receive(events.message(assistant("m1")))
      turn.dispatch({ type: "stream-gap" })
      turn.receive(events.message(assistant("m2")), events.part(textPart("m2", "p2")))
      turn.receive(events.delta("m2", "p2", "second "))
      return turn
    }
    const sentText = (turn: ReturnType<typeof late>) =>
      turn.sent("message.part.text-delta").map(({ delta }) => delta)

    test("text that arrives during the read is sent after the missed text", () => {
      const turn = late()
      expect(sentText(turn)).toEqual([])
      const begun = { message: assistant("m2"), parts: [textPart("m2", "p2", "")] }
      turn.read([...missed, begun], "stream-gap", { type: "busy" })
      turn.receive(events.delta("m2", "p2", "third"))
      expect(sentText(turn)).toEqual(["first ", "second ", "third"])
    })

    test("text is held back until the last of several reads, and until a retry when a read fails", () => {
      const turn = late()
      turn.dispatch({ type: "stream-gap" })
      turn.read([], "stream-gap", { type: "busy" })
      turn.dispatch({ type: "read-failed", why: "stream-gap", error: "no response" })
      expect(sentText(turn)).toEqual([])
      turn.read(missed, "recheck", { type: "busy" })
      expect(sentText(turn)).toEqual(["first ", "second "])
    })

    test("text that is held back is sent when the turn ends before the read", () => {
      const turn = late()
      turn.dispatch({ type: "agent-lost", error: "OpenCode ended" })
      expect(sentText(turn)).toEqual(["second "])
      expect(turn.sent("message.finalize")).toMatchObject([{ finalText: "second " }])
    })

    test("text that was held back when the runner died is read again from OpenCode", () => {
      const turn = late()
      turn.receive(events.part(textPart("m2", "p2", "second ", true)))
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
      const deltas = effects.flatMap((effect) =>
        effect.do === "send" && effect.frame.type === "message.part.text-delta"
          ? [effect.frame.delta]
          : [],
      )
      expect(deltas).toEqual(["first ", "second "])
    })
  })

  test("L-34: every delta names its part, and a snapshot of an earlier part is not sent again", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1", "before", true)))
    turn.receive(events.part(toolPart("m1", "c1", "completed")), events.message(done("m1")))
    turn.receive(events.message(assistant("m2")), events.part(textPart("m2", "p2", "after", true)))
    turn.receive(events.part(textPart("m1", "p1", "before", true)))
    expect(
      turn.sent("message.part.text-delta").map(({ partId, delta }) => [partId, delta]),
    ).toEqual([
      ["p1", "before"],
      ["p2", "after"],
    ])
  })

  test("L-35: the final text contains all text of the turn, not only the text after the last tool", () => {
    const turn = start()
    turn.receive(events.message(done("m1")), events.part(textPart("m1", "p1", "before, ", true)))
    turn.receive(events.part(toolPart("m1", "c1", "completed")))
    turn.receive(
      events.message(done("m2")),
      events.part(textPart("m2", "p2", "after", true)),
      events.idle(),
    )
    turn.read([])
    expect(turn.sent("message.finalize")[0]?.finalText).toBe("before, after")
  })

  test("L-36: growing snapshots and deltas result in the same frames", () => {
    const grown = start()
    grown.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1", "a")))
    grown.receive(
      events.part(textPart("m1", "p1", "ab")),
      events.part(textPart("m1", "p1", "ab", true)),
    )
    const streamed = start()
    streamed.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1")))
    streamed.receive(events.delta("m1", "p1", "a"), events.delta("m1", "p1", "b"))
    streamed.receive(events.part(textPart("m1", "p1", "ab", true)))
    expect(grown.frames()).toEqual(streamed.frames())
  })

  test("a second step-start in a message drops the parts before it and reports their ids", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(stepStart("m1", "s1")))
    turn.receive(events.part(textPart("m1", "p1")), events.delta("m1", "p1", "half"))
    turn.receive(
      events.part(stepStart("m1", "s2")),
      events.part(textPart("m1", "p2", "whole", true)),
    )
    expect(turn.sent("retry").flatMap(({ droppedParts }) => droppedParts)).toEqual(["p1"])
    turn.receive(events.message(done("m1")), events.idle())
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

describe("status and budgets", () => {
  test("L-37: an idle status of OpenCode between two steps is not sent", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.idle(), events.idle())
    expect(turn.sent("agentStatus").map(({ status }) => status)).toEqual(["thinking"])
  })

  test("L-38: an open message does not count as a response of the model, and a part does", () => {
    const silent = start()
    silent.receive(events.message(assistant("m1")))
    silent.dispatch({ type: "timer", name: "first-event" })
    expect(silent.turn().stopped).toEqual({ by: "budget", reason: "no answer within 90 s" })
    const alive = start()
    alive.receive(events.message(assistant("m1")), events.part(stepStart("m1", "s1")))
    alive.dispatch({ type: "timer", name: "first-event" })
    expect(alive.turn().stopped).toBeUndefined()
  })

  test("L-38: silence is allowed while a tool runs, a question is open or a sub-agent works", () => {
    const running = start()
    running.receive(events.message(assistant("m1")), events.part(toolPart("m1", "c1", "running")))
    running.wait(600_000)
    running.dispatch({ type: "timer", name: "progress" })
    expect(running.turn().stopped).toBeUndefined()
    const asking = start()
    asking.receive(events.message(assistant("m1")), {
      type: "question",
      agentSessionId: SESSION,
      requestId: "q1",
      questions: [{ text: "?", options: [], multiple: false }],
    })
    asking.wait(600_000)
    asking.dispatch({ type: "timer", name: "progress" })
    expect(asking.turn().stopped).toBeUndefined()
    const delegating = start()
    delegating.receive(events.message(assistant("m1")))
    delegating.wait(290_000)
    delegating.receive(
      events.part({ ...toolPart("cm1", "c2", "running"), agentSessionId: "ses_child" }),
    )
    delegating.receive(
      events.part({ ...toolPart("cm1", "c2", "completed"), agentSessionId: "ses_child" }),
    )
    delegating.wait(20_000)
    delegating.dispatch({ type: "timer", name: "progress" })
    expect(delegating.turn().stopped).toBeUndefined()
  })

  test("L-38: a silent model ends the turn with the reason once OpenCode has stopped", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1", "well")))
    turn.wait(300_001)
    turn.dispatch({ type: "timer", name: "progress" })
    expect(turn.requested("abort")).toHaveLength(1)
    expect(turn.outcome()).toBeUndefined()
    turn.receive(events.message(done("m1")), events.idle())
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "error", error: "no progress for 300 s" })
  })
})

describe("stopping a turn", () => {
  test("L-39: a turn whose session is idle is not aborted, since the abort would hit the next prompt", () => {
    const turn = start()
    turn.receive(
      events.message(done("m1")),
      events.part(textPart("m1", "p1", "x", true)),
      events.idle(),
    )
    turn.dispatch({ type: "stop", reason: "too late" })
    expect(turn.requested("abort")).toHaveLength(0)
  })

  test("L-40: the reason is stored before the abort is sent, so the abort is not taken for a failure", () => {
    const turn = start(MODELS)
    turn.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1", "half")))
    turn.dispatch({ type: "stop", reason: "stopped by the user" })
    const aborted = { name: "MessageAbortedError", message: "Aborted" }
    turn.receive(
      events.error(aborted),
      events.idle(),
      events.message(done("m1", { error: aborted })),
      events.idle(),
    )
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "canceled", reason: "stopped by the user" })
    expect(turn.sent("message.finalize")).toMatchObject([{ reason: "canceled", finalText: "half" }])
    expect(turn.sent("model-switched")).toEqual([])
  })

  test("L-41: a stopped turn does not end while OpenCode is busy, and the abort is sent again", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")))
    turn.dispatch({ type: "stop", reason: "enough" })
    turn.dispatch({ type: "timer", name: "recheck" })
    turn.read([{ message: assistant("m1"), parts: [] }], "recheck", { type: "busy" })
    expect(turn.outcome()).toBeUndefined()
    expect(turn.requested("abort")).toHaveLength(2)
  })

  test("L-41: a turn stopped before its answer began ends only after several idle reads", () => {
    const turn = start()
    turn.dispatch({ type: "stop", reason: "enough" })
    turn.read([{ message: user(), parts: [] }], "recheck")
    expect(turn.outcome()).toBeUndefined()
    turn.read([{ message: user(), parts: [] }], "recheck")
    turn.read([{ message: user(), parts: [] }], "recheck")
    expect(turn.outcome()).toEqual({ type: "canceled", reason: "enough" })
  })

  test("L-42: a tool that waits is neither aborted nor ended by the runner", () => {
    const turn = start()
    const waiting = { ...toolPart("m1", "c1", "running"), tool: "wait_for_event" }
    turn.receive(events.message(assistant("m1")), events.part(waiting))
    turn.wait(3_600_000)
    turn.dispatch({ type: "timer", name: "progress" })
    expect(turn.requested("abort")).toHaveLength(0)
    turn.receive(events.part({ ...toolPart("m1", "c1", "completed"), tool: "wait_for_event" }))
    turn.receive(events.message(done("m1", { finish: "stop" })), events.idle())
    turn.read([])
    expect(turn.outcome()).toEqual({ type: "ok" })
  })
})

describe("failover to another model", () => {
  test("L-44: a failed attempt is finalized, and the next attempt has its own turn id", () => {
    const turn = start(MODELS)
    turn.receive(events.message(assistant("m1")), events.part(textPart("m1", "p1", "I am", false)))
    turn.receive(events.message(done("m1", { error: unauthorized })), events.idle())
    turn.read([{ message: done("m1", { error: unauthorized }), parts: [] }])
    expect(turn.sent("message.finalize")).toMatchObject([{ turnId: "t1", reason: "error" }])
    turn.receive(events.message(assistant("m2")), events.part(textPart("m2", "p2", "here", true)))
    expect(turn.sent("message.create").map(({ turnId }) => turnId)).toEqual(["t1", "t1.2"])
    turn.receive(events.message(done("m2")), events.idle())
    turn.read([
      { message: done("m1", { error: unauthorized }), parts: [textPart("m1", "p1", "I am", true)] },
      { message: done("m2"), parts: [textPart("m2", "p2", "here", true)] },
    ])
    expect(turn.sent("message.finalize")[1]).toMatchObject({ turnId: "t1.2", finalText: "here" })
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("L-45: a tool that still runs at the end of a turn is reported as canceled, never as completed", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(toolPart("m1", "c1", "running")))
    turn.dispatch({ type: "agent-lost", error: "OpenCode exited" })
    expect(turn.sent("message.part.tool-update").at(-1)).toMatchObject({
      status: "error",
      error: "canceled",
    })
  })

  test("a turn that is being stopped when OpenCode dies ends as canceled, not as failed", () => {
    const turn = start()
    turn.receive(events.message(assistant("m1")), events.part(toolPart("m1", "c1", "running")))
    turn.dispatch({ type: "stop", reason: "the runner is shutting down" })
    turn.dispatch({ type: "agent-lost", error: "OpenCode exited" })
    expect(turn.sent("message.finalize")).toMatchObject([{ reason: "canceled" }])
    expect(turn.sent("complete")).toHaveLength(1)
  })

  test("L-46: the error names every model that was tried and no other", () => {
    const turn = start(MODELS)
    const refuse = (id: string) => {
      turn.receive(events.message(done(id, { error: unauthorized })), events.idle())
      turn.read([])
    }
    refuse("m1")
    refuse("m2")
    expect(turn.outcome()).toEqual({
      type: "error",
      error: "all models failed: a/one: no key; b/two: no key",
    })
  })

  test("L-47: the model is explicit in every post", () => {
    const turn = start(MODELS)
    expect(turn.requested("post")).toEqual([{ do: "post", model: "a/one" }])
  })

  test("the next model is not tried after a tool has run, not even a sub-agent's tool", () => {
    const turn = start(MODELS)
    turn.receive(events.message(assistant("m1")))
    turn.receive(events.part({ ...toolPart("cm1", "c9", "running"), agentSessionId: "ses_child" }))
    turn.receive(events.message(done("m1", { error: unauthorized })), events.idle())
    turn.read([])
    expect(turn.sent("model-switched")).toEqual([])
    expect(turn.outcome()?.type).toBe("error")
  })

  test("the next model is tried as soon as OpenCode announces a retry", () => {
    const turn = start(MODELS)
    turn.receive(events.message(assistant("m1")), events.retry(1, 99_000, "rate limit"))
    expect(turn.requested("abort")).toHaveLength(1)
    turn.receive(events.message(done("m1")), events.idle())
    turn.read([])
    expect(turn.sent("model-switched")).toMatchObject([{ reason: "rate limit", toModel: "b/two" }])
  })
})

test("L-48: usage is sent once for each message as raw token counts, cache reads included", () => {
  const usage = { input: 1, output: 2, reasoning: 3, cacheRead: 80_000, cacheWrite: 5 }
  const turn = start()
  turn.receive(events.message(done("m1", { usage, model: "a/one" })))
  turn.receive(events.message(done("m1", { usage, model: "a/one" })))
  expect(turn.sent("usage")).toMatchObject([{ model: "a/one", ...usage }])
})

describe("the messages of a turn", () => {
  test("an answer to another user message does not belong to the turn", () => {
    const turn = start()
    turn.receive(events.message(user()), events.message(done("m1", { parentId: "msg_other" })))
    turn.receive(events.part(textPart("m1", "p1", "another answer", true)))
    expect(turn.sent("message.part.text-delta")).toEqual([])
  })

  test("after a compaction the answer to OpenCode's own message belongs to the turn, and its summary is not sent", () => {
    const turn = start()
    turn.receive(events.message(user(PROMPT, 1000)), events.message(user("msg_own", 1500)))
    turn.receive(events.message(assistant("m1", { parentId: "msg_own", isSummary: true })))
    turn.receive(events.part(textPart("m1", "p1", "## Goal", true)))
    turn.receive(events.message(assistant("m2", { parentId: "msg_own" })))
    turn.receive(events.part(textPart("m2", "p2", "answer", true)))
    expect(turn.sent("message.part.text-delta").map(({ delta }) => delta)).toEqual(["answer"])
  })

  test("an answer to a message older than the prompt does not belong to the turn", () => {
    const turn = start()
    turn.receive(events.message(user(PROMPT, 1000)), events.message(user("msg_old", 500)))
    turn.receive(events.message(assistant("m1", { parentId: "msg_old" })))
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

  test("permissions are allowed once when they are not relayed, also for a sub-agent", () => {
    const turn = start()
    turn.receive(asked)
    expect(turn.requested("reply-permission")).toEqual([
      { do: "reply-permission", permissionId: "per_1", reply: "once" },
    ])
    expect(turn.sent("permission")).toEqual([])
  })

  test("permissions that are open when the turn ends are rejected", () => {
    const turn = start({ relayPermissions: true })
    turn.receive(asked)
    turn.dispatch({ type: "agent-lost", error: "gone" })
    expect(turn.requested("reply-permission")).toMatchObject([{ reply: "reject" }])
  })
})

test("a turn that is resumed with a new OpenCode process ends with an error", () => {
  const turn = start()
  turn.receive(
    events.message(user()),
    events.message(assistant("m1")),
    events.part(textPart("m1", "p1")),
  )
  turn.receive(events.delta("m1", "p1", "half"))
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
  expect(sent[0]).toMatchObject({ reason: "error", error: "OpenCode was stopped during the turn" })
  // Half an answer must not pass for the whole: the receiver keeps the deltas it has.
  expect(sent[0]).not.toHaveProperty("finalText")
})

test("a resumed turn whose message is completed without a reason to finish is an error that says what is missing, and with one it is ok", () => {
  const outcome = (finish?: string, firstRead: "idle" | "busy" = "idle") => {
    const turn = start()
    turn.receive(
      events.message(user()),
      events.message(assistant("m1")),
      events.part(textPart("m1", "p1")),
    )
    turn.receive(events.delta("m1", "p1", "half"))
    const saved = changedTurn(turn.turn(), undefined)
    if (!saved) throw new Error("unreachable")
    const restored = restoreTurn(saved, changedTexts(turn.turn(), undefined))
    const [resumed] = step(restored, { type: "resume" }, 20_000)
    const message = { ...assistant("m1"), completed: true, ...(finish && { finish }) }
    const snapshot = {
      status: { type: "idle" },
      messages: [
        { message: user(), parts: [] },
        { message, parts: [textPart("m1", "p1", "half")] },
      ],
      children: [],
    } as const
    const first = { ...snapshot, status: { type: firstRead } } as const
    const [later, effects] = step(resumed, { type: "read", why: "resume", snapshot: first }, 20_000)
    const [, more] = step(later, { type: "read", why: "recheck", snapshot }, 22_000)
    return [...effects, ...more].flatMap((effect) =>
      effect.do === "send" && effect.frame.type === "message.finalize" ? [effect.frame] : [],
    )[0]
  }
  expect(outcome()).toMatchObject({ reason: "error" })
  expect(outcome()?.error).toContain("the answer is not complete")
  expect(outcome("stop")).toMatchObject({ reason: "end_turn", finalText: "half" })
  // The same if OpenCode was busy at first, and a later read decides.
  expect(outcome(undefined, "busy")?.error).toContain("the answer is not complete")
  expect(outcome("stop", "busy")).toMatchObject({ reason: "end_turn", finalText: "half" })
})

describe("retries of the last model", () => {
  const retried = (attempt: number, wait: number, settings = {}) => {
    const turn = start(settings)
    // The clock of the driver.
    const now = 10_000
    turn.receive(
      events.message(user()),
      events.message(assistant("m1")),
      events.retry(attempt, now + wait, "come back later"),
    )
    return turn
  }

  test("a wait that is longer than a turn may make no progress ends the turn at once, with the provider's words", () => {
    const turn = retried(1, 600_000)
    expect(turn.sent("retry")).toMatchObject([{ attempt: 1, next: 610_000 }])
    expect(turn.requested("abort")).toHaveLength(1)
    turn.read([{ message: done("m1"), parts: [] }], "recheck")
    expect(turn.outcome()).toEqual({
      type: "error",
      error:
        "not retried: the provider asks to wait 600 s, longer than the 300 s that a turn may make no progress (the provider reported: come back later)",
    })
  })

  test("with another model left such a wait passes the prompt on", () => {
    const turn = retried(1, 600_000, MODELS)
    turn.read([{ message: done("m1"), parts: [] }], "recheck")
    expect(turn.sent("model-switched")).toMatchObject([{ toModel: "b/two" }])
  })

  test("five retries are waited for, a sixth one ends the turn", () => {
    expect(retried(5, 30_000).requested("abort")).toEqual([])
    const turn = retried(6, 64_000)
    expect(turn.requested("abort")).toHaveLength(1)
    turn.read([{ message: done("m1"), parts: [] }], "recheck")
    expect(turn.outcome()).toMatchObject({
      error: "still no answer after 5 retries (the provider reported: come back later)",
    })
  })
})

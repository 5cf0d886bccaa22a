/** Jobs on disk. */
import { Database } from "bun:sqlite"
import { describe, expect, test } from "bun:test"
import { openJobStore } from "../../../src/runner/channels/job-store.ts"
import { changedTurn, type SavedTurn } from "../../../src/runner/turn/turn-record.ts"
import { newTurn } from "../../../src/runner/turn/turn.ts"

const job = (messageId: string) => ({ type: "prompt", messageId, content: "go" }) as const
const posting = { kind: "prompt", body: { messageID: "msg_1", parts: [] } } as const
const turnOf = (promptId: string): SavedTurn => {
  const turn = newTurn({
    promptId,
    turnId: "t",
    channelType: "web",
    channelId: "default",
    agentSessionId: "ses_1",
    userMessageId: `msg_${promptId}`,
  })
  const saved = changedTurn(turn, undefined)
  if (!saved) throw new Error("a new turn has nothing to store")
  return saved
}
const open = () => openJobStore(new Database(":memory:", { strict: true }))

describe("the job store", () => {
  test("a job is found by its id as queued, then running, then ended", () => {
    const store = open()
    expect(store.stateOf("p1")).toBeUndefined()
    store.queued("p1", "web:default", job("p1"))
    expect(store.stateOf("p1")).toBe("queued")
    expect(store.unfinished()).toEqual([{ state: "queued", job: job("p1") }])
    store.started("p1", posting, turnOf("p1"))
    expect(store.stateOf("p1")).toBe("running")
    expect(store.unfinished()).toMatchObject([{ state: "running", posting, texts: [] }])
    store.ended("p1", { type: "error", error: "why" })
    expect(store.stateOf("p1")).toBe("ended")
    expect(store.outcomeOf("p1")).toEqual({ type: "error", error: "why" })
    expect(store.unfinished()).toEqual([])
  })

  test("a job's texts are stored with the number of characters sent, without the text", () => {
    const store = open()
    store.queued("p1", "web:default", job("p1"))
    store.started("p1", posting, turnOf("p1"))
    const part = {
      id: "prt_1",
      messageId: "m1",
      kind: "text",
      ended: false,
      dropped: false,
    } as const
    store.changed("p1", undefined, [{ ...part, sent: 5 }])
    store.changed("p1", undefined, [{ ...part, sent: 9, ended: true }])
    expect(store.unfinished()).toMatchObject([{ texts: [{ ...part, sent: 9, ended: true }] }])
    store.ended("p1", { type: "ok" })
    expect(store.unfinished()).toEqual([])
  })

  test("a job is found with its OpenCode message and the later jobs on its channel", () => {
    const store = open()
    for (const [id, channel] of [
      ["a", "x:1"],
      ["b", "x:2"],
      ["c", "x:1"],
    ] as const) {
      store.queued(id, channel, job(id))
      store.started(id, posting, turnOf(id))
      store.ended(id, { type: "ok" })
    }
    expect(store.messageOf("a")).toEqual({
      channelKey: "x:1",
      agentSessionId: "ses_1",
      userMessageId: "msg_a",
      idsFromHere: ["a", "c"],
    })
    expect(store.messageOf("unknown")).toBeUndefined()
  })

  test("old ended jobs are deleted, and a running job never is", () => {
    const store = open()
    store.queued("runs", "web:default", job("runs"))
    store.started("runs", posting, turnOf("runs"))
    for (let n = 0; n < 2100; n += 1) {
      store.queued(`p${n}`, "web:default", job(`p${n}`))
      store.ended(`p${n}`, { type: "ok" })
    }
    expect(store.stateOf("p0")).toBeUndefined()
    expect(store.stateOf("p2099")).toBe("ended")
    expect(store.stateOf("runs")).toBe("running")
  })
})

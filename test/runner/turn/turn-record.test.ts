/** The stored form of a turn. */
import { expect, test } from "bun:test"
import { changedTurn, restoreTurn } from "../../../src/runner/turn/turn-record.ts"
import { newTurn } from "../../../src/runner/turn/turn.ts"

const turn = {
  ...newTurn({
    promptId: "p1",
    turnId: "t1",
    channelType: "web",
    channelId: "default",
    agentSessionId: "ses_1",
    userMessageId: "msg_1",
  }),
  discardedMessages: ["m1"],
  promptCreatedAt: 5,
  steeredBy: "msg_2",
  countedChildMessages: ["cm1"],
  postCount: 2,
  modelResponded: true,
}

test("a stored turn uses the field names that existing state directories contain", () => {
  expect(changedTurn(turn, undefined)).toMatchObject({
    identity: { promptId: "p1", turnId: "t1", sessionId: "ses_1", userMessageId: "msg_1" },
    voided: ["m1"],
    parents: ["msg_1"],
    askedAt: 5,
    overtakenBy: "msg_2",
    counted: ["cm1"],
    posts: 2,
    heard: true,
  })
})

test("a turn restored from its stored JSON equals the turn that was stored", () => {
  const saved = changedTurn(turn, undefined)
  if (!saved) throw new Error("a new turn has nothing to store")
  expect(restoreTurn(JSON.parse(JSON.stringify(saved)), [])).toEqual(turn)
})

test("a turn to which only text was added has no changed fields to store", () => {
  expect(changedTurn({ ...turn, texts: [] }, turn)).toBeUndefined()
})

/** A job that is said twice learns how it stands; nothing is done again. */
import { expect, test } from "bun:test"
import { duplicateJobFrames } from "../../../src/runner/channels/duplicate-job.ts"
import { newTurn } from "../../../src/runner/turn/turn.ts"

const job = { type: "prompt", messageId: "p1", content: "go" } as const
const channel = { channelType: "web", channelId: "default" }
const address = { messageId: "p1", ...channel }

test("one that waits is told to be queued, not to be complete", () => {
  expect(duplicateJobFrames(job, channel, { is: "waiting" })).toEqual([
    { type: "agentStatus", status: "thinking", detail: "queued", ...address },
  ])
})

test("one that runs is told what it does", () => {
  const identity = {
    promptId: "p1",
    turnId: "t1",
    ...channel,
    agentSessionId: "s",
    userMessageId: "m",
  }
  const turn = { ...newTurn(identity), status: "tool_calling", statusDetail: "bash" } as const
  expect(duplicateJobFrames(job, channel, { is: "running", turn })).toEqual([
    { type: "agentStatus", status: "tool_calling", detail: "bash", ...address },
  ])
})

test("one that has ended is told its end again, with its error", () => {
  const outcome = { type: "error", error: "why" } as const
  expect(duplicateJobFrames(job, channel, { is: "ended", outcome })).toEqual([
    { type: "error", error: "why", ...address },
    { type: "complete", ...address },
    { type: "agentStatus", status: "idle", ...address },
  ])
})

test("a command that has ended is answered again", () => {
  const command = { type: "opencode-command", command: "init", requestId: "k1" } as const
  const frames = duplicateJobFrames(command, channel, { is: "ended", outcome: { type: "ok" } })
  expect(frames.at(-1)).toMatchObject({ type: "command-result", requestId: "k1", command: "init" })
})

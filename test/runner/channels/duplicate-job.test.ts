/** The frames that answer a duplicate job. */
import { expect, test } from "bun:test"
import { duplicateJobFrames } from "../../../src/runner/channels/duplicate-job.ts"
import { newTurn } from "../../../src/runner/turn/turn.ts"

const job = { type: "prompt", messageId: "p1", content: "go" } as const
const channel = { channelType: "web", channelId: "default" }
const address = { messageId: "p1", ...channel }

test("a duplicate of a queued job is reported as queued, not as complete", () => {
  expect(duplicateJobFrames(job, channel, { is: "waiting" })).toEqual([
    { type: "agentStatus", status: "thinking", detail: "queued", ...address },
  ])
})

test("a duplicate of a running job is reported with the status of its turn", () => {
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

test("a duplicate of an ended job gets the frames of its end again, with its error", () => {
  const outcome = { type: "error", error: "why" } as const
  expect(duplicateJobFrames(job, channel, { is: "ended", outcome })).toEqual([
    { type: "error", error: "why", ...address },
    { type: "complete", ...address },
    { type: "agentStatus", status: "idle", ...address },
  ])
})

test("a duplicate of an ended command gets its result again", () => {
  const command = { type: "opencode-command", command: "init", requestId: "k1" } as const
  const frames = duplicateJobFrames(command, channel, { is: "ended", outcome: { type: "ok" } })
  expect(frames.at(-1)).toMatchObject({ type: "command-result", requestId: "k1", command: "init" })
})

/** How an input becomes fields on the wire, and a result becomes a reply. */
import { describe, expect, test } from "bun:test"
import { operations } from "../../../src/wire/operations/index.ts"
import { sampleOf, samples } from "./samples.ts"

test("every sample is of an operation in the table", () => {
  expect(Object.keys(samples).toSorted()).toEqual(operations.map(({ name }) => name).toSorted())
})

test.each(operations)("$name takes its sample", ({ name, input }) => {
  expect(input.safeParse(sampleOf(name).input).error).toBeUndefined()
})

test.each(operations)("$name leaves out what it does not know", ({ name, input }) => {
  const sample = sampleOf(name).input
  expect(input.parse({ ...sample, fromTheFuture: 1 })).not.toHaveProperty("fromTheFuture")
})

for (const { name, input, output, served } of operations) {
  if (served.by !== "session") continue

  describe(`${name}, which the session agent answers`, () => {
    const sample = sampleOf(name)

    test("asks with fields that its request has", () => {
      const fields = served.toFields(input.parse(sample.input))
      expect(served.request.fields.strict().safeParse(fields).error).toBeUndefined()
    })

    test("replies with what it was answered", () => {
      const reply = output.parse(served.toReply(served.request.result.parse(sample.result)))
      expect(reply).toEqual(sample.reply ?? sample.result)
    })

    test("does not stumble over an answer with nothing in it", () => {
      expect(() => served.toReply({})).not.toThrow()
    })
  })
}

const fieldsOf = (name: string) => {
  const served = operations.find((operation) => operation.name === name)?.served
  if (served === undefined || served.by === "sandbox") throw new Error(`${name} sends nothing`)
  return served.toFields
}

describe("on the way to the wire", () => {
  test("a child without a title is called as its workspace", () => {
    const fields = fieldsOf("spawn-session")
    expect(fields({ task: "t", workspace: "w" })).toMatchObject({ title: "w" })
    expect(fields({ task: "t", workspace: "w", title: "T" })).toMatchObject({ title: "T" })
  })

  test("an image alone goes with an empty message", () => {
    const image = { channelType: "c", channelId: "1", imageBase64: "AA==", imageMimeType: "i/p" }
    expect(fieldsOf("channel-reply")(image)).toEqual({ ...image, message: "" })
  })

  test("an image without a description has an empty one", () => {
    expect(fieldsOf("send-image")({ data: "AA==" })).toEqual({ data: "AA==", description: "" })
  })

  test("names in snake_case become those of the wire", () => {
    expect(
      fieldsOf("report-git-state")({ branch: "b", base_branch: "m", commit_count: 2 }),
    ).toEqual({ branch: "b", baseBranch: "m", commitCount: 2 })
    expect(fieldsOf("task-update")({ id: "k", session_id: "s", title: "T" })).toEqual({
      taskId: "k",
      sessionId: "s",
      title: "T",
    })
    expect(
      fieldsOf("inspect-pull-request")({ pr_number: 7, files_limit: 1, comments_limit: 2 }),
    ).toEqual({ prNumber: 7, filesLimit: 1, commentsLimit: 2 })
  })

  test("path parameters go into the payload under the name of what they are", () => {
    expect(fieldsOf("review-workflow-proposal")({ id: "w", pid: "p", approve: true })).toEqual({
      action: "proposal-review",
      payload: { workflowId: "w", proposalId: "p", approve: true },
    })
    expect(fieldsOf("update-trigger")({ id: "t", workflowId: null })).toEqual({
      action: "update",
      payload: { triggerId: "t", workflowId: null },
    })
    expect(fieldsOf("cancel-execution")({ id: "e" })).toEqual({
      action: "cancel",
      payload: { executionId: "e" },
    })
  })
})

/** How an input becomes fields of a frame, and a result becomes a reply. */
import { describe, expect, test } from "bun:test"
import { toolsOf } from "../../../src/wire/operations/define.ts"
import { operations } from "../../../src/wire/operations/index.ts"
import { sampleOf, samples } from "./samples.ts"

test("the samples cover exactly the operations of the table", () => {
  expect(Object.keys(samples).toSorted()).toEqual(operations.map(({ name }) => name).toSorted())
})

test.each(operations)("the operation $name accepts its sample", ({ name, input }) => {
  expect(input.safeParse(sampleOf(name).input).error).toBeUndefined()
})

test.each(operations)("the operation $name removes unknown fields", ({ name, input }) => {
  const sample = sampleOf(name).input
  expect(input.parse({ ...sample, fromTheFuture: 1 })).not.toHaveProperty("fromTheFuture")
})

for (const { name, input, output, served } of operations) {
  if (served.by !== "session") continue

  describe(`operation ${name}`, () => {
    const sample = sampleOf(name)

    test(`the operation ${name} sends only fields of its request`, () => {
      const fields = served.toFields(input.parse(sample.input))
      expect(served.request.fields.strict().safeParse(fields).error).toBeUndefined()
    })

    test(`the operation ${name} turns the result into its reply`, () => {
      const reply = output.parse(served.toReply(served.request.result.parse(sample.result)))
      expect(reply).toEqual(sample.reply ?? sample.result)
    })

    test(`the operation ${name} does not throw on an empty result`, () => {
      expect(() => served.toReply({})).not.toThrow()
    })
  })
}

test("the model reads that a branch had a pull request already, and how to change it", () => {
  const row = operations.find(({ name }) => name === "create-pull-request")
  const [tool] = row ? toolsOf(row) : []
  const pull = { number: 7, title: "Old", state: "open", url: "https://git.example/pull/7" }
  expect(tool?.render(pull)).toBe("Pull request #7 (open): Old\nhttps://git.example/pull/7")
  expect(tool?.render({ ...pull, existed: true })).toBe(
    "No pull request was opened: the branch has an open one. It keeps its title and description; change them with update_pull_request (pr_number 7).\nPull request #7 (open): Old\nhttps://git.example/pull/7",
  )
})

test("the model reads that nothing listens yet on the port of a new tunnel", () => {
  const row = operations.find(({ name }) => name === "register-tunnel")
  const [tool] = row ? toolsOf(row) : []
  const tunnel = { name: "web", port: 3123, path: "/t/web" }
  expect(tool?.render({ ok: true, tunnel: { ...tunnel, listening: true } })).toBe(
    "Port 3123 is open at /t/web/ on this sandbox's URL.",
  )
  expect(tool?.render({ ok: true, tunnel: { ...tunnel, listening: false } })).toContain(
    "nothing listens on port 3123 yet: start the server",
  )
})

const fieldsOf = (name: string) => {
  const served = operations.find((operation) => operation.name === name)?.served
  if (served === undefined || served.by === "sandbox") throw new Error(`${name} sends no frame`)
  return served.toFields
}

describe("fields of a frame", () => {
  test("the title of a child session defaults to its workspace", () => {
    const fields = fieldsOf("spawn-session")
    expect(fields({ task: "t", workspace: "w" })).toMatchObject({ title: "w" })
    expect(fields({ task: "t", workspace: "w", title: "T" })).toMatchObject({ title: "T" })
  })

  test("an image without a message is sent with an empty message", () => {
    const image = { channelType: "c", channelId: "1", imageBase64: "AA==", imageMimeType: "i/p" }
    expect(fieldsOf("channel-reply")(image)).toEqual({ ...image, message: "" })
  })

  test("an image without a description is sent with an empty description", () => {
    expect(fieldsOf("send-image")({ data: "AA==" })).toEqual({ data: "AA==", description: "" })
  })

  test("snake_case names become the camelCase names of the frame", () => {
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

  test("path parameters become named ids in the payload", () => {
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

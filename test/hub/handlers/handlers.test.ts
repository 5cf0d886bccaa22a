/** Requests of the runner over a real link, answered by the hub from its shared store. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { hashOf } from "../../../src/hub/keys.ts"
import { wireRequests } from "../../../src/wire/operations/index.ts"
import type { RequestFields, RequestResult, RequestType } from "../../../src/wire/frames/index.ts"
import { startFakeRunner } from "../kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "../kit/local-hub.ts"
import { untilTrue } from "../../kit/until-true.ts"

let setup: TestLocalHub

beforeAll(async () => {
  setup = await startTestLocalHub()
})
afterAll(() => setup.stop())

const request = <Type extends RequestType>(
  type: Type,
  fields: RequestFields<Type>,
): Promise<RequestResult<Type>> => setup.runner.uplink.request(type, fields)

/** A runner of another session of the same hub. */
const startSecondRunner = async () => {
  setup.hub.create("s2", "user:local", ["s1"]).setRunnerToken(await hashOf(RUNNER_TOKEN))
  const stateDir = join(setup.folder, "runner-2")
  return startFakeRunner({ url: setup.hub.runnerUrl("s2"), token: RUNNER_TOKEN, stateDir })
}

const refusalOf = async (pending: Promise<unknown>): Promise<string> => {
  try {
    await pending
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new Error("the request was not refused")
}

test("every request type gets a result or a refusal", async () => {
  for (const { type, fields } of wireRequests) {
    const sample = Object.fromEntries(
      Object.entries(fields.shape).map(([name, schema]) => [name, sampleOf(name, schema)]),
    )
    if (type === "spawn-child") continue
    const outcome = await request(type, sample as never).then(
      () => "result",
      (error: unknown) => `${(error as { failure?: string }).failure}`,
    )
    expect([type, outcome]).toEqual([type, outcome === "result" ? "result" : "refused"])
  }
})

/** A value that the schema of the field accepts. */
const sampleOf = (
  name: string,
  schema: { safeParse: (value: unknown) => { success: boolean } },
): unknown =>
  [undefined, "none", 1, true, { steps: [{}] }, ["none"], "list", "get"].find(
    (value) => schema.safeParse(value).success && !(name === "action" && value === undefined),
  )

describe("memories", () => {
  test("memories are stored, found by any word or by category, and deleted", async () => {
    const { memory } = await request("memory-write", {
      content: "The deploys run on Fridays",
      category: "habits",
    })
    await request("memory-write", {
      content: "Tests need a database called birds",
      category: "setup",
    })
    const found = await request("memory-read", { query: "deploy friday" })
    expect(found.memories.map(({ content }) => content)).toEqual(["The deploys run on Fridays"])
    expect((await request("memory-read", { category: "setup" })).memories).toHaveLength(1)
    expect(
      (await request("memory-read", { query: '"; DROP TABLE memories; -- NEAR(' })).memories,
    ).toBeArray()
    await request("memory-delete", { memoryId: String(memory["id"]) })
    expect((await request("memory-read", { query: "fridays" })).memories).toEqual([])
    expect(await refusalOf(request("memory-delete", { memoryId: "none" }))).toContain(
      "there is no memory none",
    )
  })
})

describe("tasks", () => {
  test("a task is blocked until the tasks that block it are completed", async () => {
    const { task: first } = await request("task-create", { title: "prepare" })
    const { task: second } = await request("task-create", {
      title: "build",
      blockedBy: [String(first["id"])],
      sessionId: "s1",
    })
    expect(second["status"]).toBe("blocked")
    await request("task-update", {
      taskId: String(first["id"]),
      status: "completed",
      result: "done",
    })
    const { tasks } = await request("task-my", {})
    expect(tasks).toMatchObject([{ title: "build", status: "pending" }])
    expect(
      await refusalOf(request("task-update", { taskId: String(first["id"]), status: "perhaps" })),
    ).toContain("must be one of")
    expect(await refusalOf(request("task-create", { title: "x", parentTaskId: "none" }))).toContain(
      "there is no task none",
    )
  })
})

describe("mailbox", () => {
  test("the mailbox returns the notifications of a session after a given one", async () => {
    const { messageId } = await request("mailbox-send", { toSessionId: "s1", content: "one" })
    await request("mailbox-send", { toSessionId: "s1", content: "two", replyToId: messageId })
    const { messages } = await request("mailbox-check", { after: messageId })
    expect(messages).toMatchObject([{ content: "two", fromSessionId: "s1", replyToId: messageId }])
    expect(await refusalOf(request("mailbox-check", { after: "yesterday-ish" }))).toContain("after")
    expect(await refusalOf(request("mailbox-send", { content: "no receiver" }))).toContain(
      "exactly one",
    )
  })
})

describe("workflows", () => {
  const data = { steps: [{ type: "bash", command: "true" }] }
  const other = { steps: [{ type: "bash", command: "false" }] }

  test("a workflow keeps its versions and can be rolled back to one", async () => {
    const { workflow } = await request("workflow-sync", { name: "Nightly build", data })
    expect(workflow).toMatchObject({ slug: "nightly-build", version: "1.0.0" })
    await request("workflow-sync", { name: "Nightly build", data: other })
    const { data: history } = await request("workflow-api", {
      action: "history",
      payload: { workflowId: "nightly-build" },
    })
    expect(history).toMatchObject({ history: [{ version: "1.0.1" }, { version: "1.0.0" }] })
    const back = await request("workflow-api", {
      action: "rollback",
      payload: { workflowId: "nightly-build", targetWorkflowHash: workflow["workflowHash"] },
    })
    expect(back.data).toMatchObject({ workflow: { data, version: "1.0.2" } })
    expect(
      await refusalOf(
        request("workflow-api", {
          action: "rollback",
          payload: { workflowId: "nightly-build", targetWorkflowHash: "sha256:none" },
        }),
      ),
    ).toContain("no version sha256:none")
  })

  test("a proposal is applied after approval, and only if the workflow has not changed since", async () => {
    const { workflow } = await request("workflow-sync", { name: "Proposed", data })
    const base = { workflowId: "proposed", baseWorkflowHash: workflow["workflowHash"] }
    const first = await request("workflow-api", {
      action: "proposal-create",
      payload: { ...base, proposal: other },
    })
    const second = await request("workflow-api", {
      action: "proposal-create",
      payload: { ...base, proposal: { steps: [{ type: "bash", command: "date" }] } },
    })
    const idOf = (result: { data?: unknown }) =>
      (result.data as { proposal: { id: string } }).proposal.id
    const apply = (proposalId: string) =>
      request("workflow-api", {
        action: "proposal-apply",
        payload: { workflowId: "proposed", proposalId },
      })
    const reviewer = await startSecondRunner()
    const review = (proposalId: string) =>
      reviewer.uplink.request("workflow-api", {
        action: "proposal-review",
        payload: { workflowId: "proposed", proposalId, approve: true },
      })
    expect(await refusalOf(apply(idOf(first)))).toContain("pending, not approved")
    await review(idOf(first))
    await review(idOf(second))
    expect((await apply(idOf(first))).data).toMatchObject({
      success: true,
      workflow: { data: other },
    })
    expect(await refusalOf(apply(idOf(second)))).toContain("has changed since")
    await reviewer.stop()
  })

  test("a workflow without steps is refused", async () => {
    expect(await refusalOf(request("workflow-sync", { name: "Empty", data: {} }))).toContain(
      "at least one step",
    )
  })

  test("a workflow runs on the session's runner, waits for approval and resumes after it", async () => {
    await request("workflow-sync", { name: "Runs", data })
    const { execution } = await request("workflow-run", { workflowId: "runs", variables: { a: 1 } })
    const executionId = String(execution["id"])
    await untilTrue(() => orders().some((order) => order.executionId === executionId), "order")
    expect(orders().find((order) => order.executionId === executionId)?.payload).toMatchObject({
      kind: "run",
      payload: { workflow: data, variables: { a: 1 } },
    })
    const requiresApproval = { stepId: "s", prompt: "ok?", items: [], resumeToken: "token-1" }
    const envelope = { ok: true, status: "needs_approval", executionId, requiresApproval } as const
    setup.runner.send({ type: "workflow-execution-result", executionId, envelope })
    const get = () => request("execution-api", { action: "get", payload: { executionId } })
    await waitFor(async () => JSON.stringify(await get()).includes("waiting_approval"))
    const approve = async () => {
      const response = await fetch(`${setup.hub.url}/sessions/s1/approve-execution`, {
        method: "POST",
        headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
        body: JSON.stringify({ executionId, approve: true }),
      })
      return { status: response.status, body: await response.json() }
    }
    expect(await approve()).toEqual({ status: 200, body: { ok: true, status: "running" } })
    expect((await approve()).status).toBe(409)
    await untilTrue(
      () => orders().filter((order) => order.executionId === executionId).length === 2,
      "resume",
    )
    expect(orders().at(-1)?.payload).toMatchObject({
      kind: "resume",
      decision: "approve",
      resumeToken: "token-1",
    })
    setup.runner.send({
      type: "workflow-execution-result",
      executionId,
      envelope: {
        ok: true,
        status: "ok",
        executionId,
        output: "fine",
        steps: [{ stepId: "s", status: "ok" }],
      },
    })
    await waitFor(async () => JSON.stringify(await get()).includes("completed"))
    expect(
      (await request("execution-api", { action: "steps", payload: { executionId } })).data,
    ).toEqual({
      steps: [{ stepId: "s", status: "ok" }],
    })
    expect(
      await refusalOf(request("execution-api", { action: "cancel", payload: { executionId } })),
    ).toContain("completed already")
  })

  test("a reconnected runner gets the order of an unfinished execution again, and not of a finished one", async () => {
    await request("workflow-sync", { name: "Lost", data })
    const { execution } = await request("workflow-run", { workflowId: "lost" })
    const executionId = String(execution["id"])
    const ordered = () => orders().filter((order) => order.executionId === executionId).length
    await untilTrue(() => ordered() === 1, "order")
    setup.runner.uplink.redial("the test cuts the link")
    await untilTrue(() => ordered() === 2, "second order")
    const envelope = { ok: true, status: "ok", executionId } as const
    setup.runner.send({ type: "workflow-execution-result", executionId, envelope })
    const get = () => request("execution-api", { action: "get", payload: { executionId } })
    await waitFor(async () => JSON.stringify(await get()).includes("completed"))
    setup.runner.uplink.redial("the test cuts the link")
    // An order sent after the reconnect arrives after all frames that the reconnect causes.
    await request("workflow-sync", { name: "After", data })
    const { execution: after } = await request("workflow-run", { workflowId: "after" })
    await untilTrue(() => orders().some((order) => order.executionId === after["id"]), "order")
    expect(ordered()).toBe(2)
  })

  test("a cancelled execution is aborted on its channel", async () => {
    await request("workflow-sync", { name: "Stopped", data })
    const { execution } = await request("workflow-run", { workflowId: "stopped" })
    const executionId = String(execution["id"])
    await request("execution-api", { action: "cancel", payload: { executionId } })
    await untilTrue(
      () =>
        setup.runner.frames.some(
          (frame) =>
            frame.type === "abort" &&
            frame.channelType === "workflow" &&
            frame.channelId === executionId,
        ),
      "abort",
    )
  })

  test("a cancelled execution stays cancelled when its runner reports a result later, and a late approval request is denied", async () => {
    await request("workflow-sync", { name: "Late", data })
    const get = async (executionId: string) =>
      (await request("execution-api", { action: "get", payload: { executionId } })).data as {
        execution: Record<string, unknown>
      }
    const cancelled = async () => {
      const { execution } = await request("workflow-run", { workflowId: "late" })
      const executionId = String(execution["id"])
      await untilTrue(() => orders().some((order) => order.executionId === executionId), "order")
      await request("execution-api", { action: "cancel", payload: { executionId } })
      return executionId
    }
    const [finished, waiting] = [await cancelled(), await cancelled()]
    setup.runner.send({
      type: "workflow-execution-result",
      executionId: finished,
      envelope: { ok: true, status: "ok", executionId: finished, output: "done" },
    })
    setup.runner.send({
      type: "workflow-execution-result",
      executionId: waiting,
      envelope: {
        ok: true,
        status: "needs_approval",
        executionId: waiting,
        requiresApproval: { stepId: "s", prompt: "Go on?", items: [], resumeToken: "token" },
      },
    })
    const decided = () =>
      orders().find((order) => order.executionId === waiting && order.payload.kind === "resume")
    await untilTrue(() => decided() !== undefined, "denial")
    expect(decided()?.payload).toMatchObject({ decision: "deny", resumeToken: "token" })
    for (const id of [finished, waiting]) {
      const { execution } = await get(id)
      expect(execution).toMatchObject({ status: "cancelled" })
      expect(execution).not.toHaveProperty("output")
    }
  })

  const orders = () =>
    setup.runner.frames.flatMap((frame) => (frame.type === "workflow-execute" ? [frame] : []))
})

const waitFor = (condition: () => Promise<boolean>) => untilTrue(condition, "true condition")

describe("webhook", () => {
  test("a webhook starts its workflow with the right secret and is refused with a wrong one", async () => {
    await request("workflow-sync", {
      name: "Hooked",
      data: { steps: [{ type: "bash", command: "true" }] },
    })
    const { data } = await request("trigger-api", {
      action: "create",
      payload: {
        name: "on push",
        workflowId: "hooked",
        config: { type: "webhook" },
        variableMapping: { branch: "ref.name" },
      },
    })
    const { trigger } = data as { trigger: { path: string; secret: string; id: string } }
    const call = (secret: string) =>
      fetch(`${setup.hub.url}${trigger.path}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${secret}` },
        body: JSON.stringify({ ref: { name: "main" } }),
      })
    expect((await call("wrong")).status).toBe(401)
    expect((await call(trigger.secret)).status).toBe(202)
    expect((await fetch(`${setup.hub.url}/hooks/none`, { method: "POST" })).status).toBe(404)
    const { executions } = await request("workflow-executions", { workflowId: "hooked" })
    expect(executions).toMatchObject([{ triggerId: trigger.id, variables: { branch: "main" } }])
    const listed = await request("trigger-api", { action: "list" })
    expect(JSON.stringify(listed)).not.toContain(trigger.secret)
  })
})

describe("other sessions", () => {
  test("another session receives a message, is read, is forwarded and reports its status", async () => {
    setup.hub.create("s2", "user:local", ["s1"])
    await request("session-message", { targetSessionId: "s2", content: "hello s2" })
    expect(
      (await request("get-session-status", { targetSessionId: "s2" })).sessionStatus,
    ).toMatchObject({ queued: 1, connected: false })
    setup.hub.find("s2")?.note({ id: "n1", role: "assistant", content: "from s2" })
    const { messages } = await request("session-messages", { targetSessionId: "s2" })
    expect(messages).toMatchObject([{ role: "assistant", content: "from s2" }])
    expect(await request("forward-messages", { targetSessionId: "s2" })).toMatchObject({
      count: 1,
      sourceSessionId: "s2",
    })
    const here = setup.hub
      .find("s1")
      ?.recent(10)
      .map(({ parts }) => parts.map((part) => part.text).join(""))
    expect(here).toContain("assistant in s2: from s2")
    expect(
      await refusalOf(request("session-message", { targetSessionId: "s9", content: "?" })),
    ).toContain("there is no session s9")
    expect(await refusalOf(request("terminate-child", { childSessionId: "s2" }))).toContain(
      "s2 is not a child of this session",
    )
  })

  test("a request without a git host is refused with the variable to set", async () => {
    expect(await refusalOf(request("list-repos", {}))).toContain("GITHUB_TOKEN")
  })
})

test("a duplicate request is carried out once", async () => {
  const frame = {
    type: "memory-write",
    requestId: "twice",
    content: "only once",
    category: "c",
  } as const
  setup.runner.send(frame)
  setup.runner.send(frame)
  await waitFor(
    async () => (await request("memory-read", { query: "only once" })).memories.length > 0,
  )
  expect((await request("memory-read", { category: "c" })).memories).toHaveLength(1)
})

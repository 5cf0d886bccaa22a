/** The runner's requests, asked over the real link and answered out of the hub's tables. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { wireRequests } from "../../../src/wire/operations/index.ts"
import type { RequestFields, RequestResult, RequestType } from "../../../src/wire/frames/index.ts"
import { startTestLocalHub, type TestLocalHub } from "../kit/local-hub.ts"
import { until } from "../kit/until.ts"

let setup: TestLocalHub

beforeAll(async () => {
  setup = await startTestLocalHub()
})
afterAll(() => setup.stop())

const ask = <Type extends RequestType>(
  type: Type,
  fields: RequestFields<Type>,
): Promise<RequestResult<Type>> => setup.runner.uplink.request(type, fields)

const refused = async (asking: Promise<unknown>): Promise<string> => {
  try {
    await asking
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new Error("it was not refused")
}

test("every request of the table gets an answer, a result or a refusal in words", async () => {
  for (const { type, fields } of wireRequests) {
    const sample = Object.fromEntries(
      Object.entries(fields.shape).map(([name, schema]) => [name, sampleOf(name, schema)]),
    )
    if (type === "spawn-child") continue
    const outcome = await ask(type, sample as never).then(
      () => "answered",
      (error: unknown) => `${(error as { failure?: string }).failure}`,
    )
    expect([type, outcome]).toEqual([type, outcome === "answered" ? "answered" : "refused"])
  }
})

/** Something of the right form for any field. */
const sampleOf = (
  name: string,
  schema: { safeParse: (value: unknown) => { success: boolean } },
): unknown =>
  [undefined, "none", 1, true, { steps: [{}] }, ["none"], "list", "get"].find(
    (value) => schema.safeParse(value).success && !(name === "action" && value === undefined),
  )

describe("memories", () => {
  test("are written, found by any of their words, by category, and forgotten", async () => {
    const { memory } = await ask("memory-write", {
      content: "The deploys run on Fridays",
      category: "habits",
    })
    await ask("memory-write", { content: "Tests need a database called birds", category: "setup" })
    const found = await ask("memory-read", { query: "deploy friday" })
    expect(found.memories.map(({ content }) => content)).toEqual(["The deploys run on Fridays"])
    expect((await ask("memory-read", { category: "setup" })).memories).toHaveLength(1)
    expect(
      (await ask("memory-read", { query: '"; DROP TABLE memories; -- NEAR(' })).memories,
    ).toBeArray()
    await ask("memory-delete", { memoryId: String(memory["id"]) })
    expect((await ask("memory-read", { query: "fridays" })).memories).toEqual([])
    expect(await refused(ask("memory-delete", { memoryId: "none" }))).toContain(
      "there is no memory none",
    )
  })
})

describe("tasks", () => {
  test("are blocked by others until those are completed", async () => {
    const { task: first } = await ask("task-create", { title: "lay the ground" })
    const { task: second } = await ask("task-create", {
      title: "build",
      blockedBy: [String(first["id"])],
      sessionId: "s1",
    })
    expect(second["status"]).toBe("blocked")
    await ask("task-update", { taskId: String(first["id"]), status: "completed", result: "done" })
    const { tasks } = await ask("task-my", {})
    expect(tasks).toMatchObject([{ title: "build", status: "pending" }])
    expect(
      await refused(ask("task-update", { taskId: String(first["id"]), status: "perhaps" })),
    ).toContain("must be one of")
    expect(await refused(ask("task-create", { title: "x", parentTaskId: "none" }))).toContain(
      "there is no task none",
    )
  })
})

describe("the mailbox", () => {
  test("holds what was sent to a session, after a given one", async () => {
    const { messageId } = await ask("mailbox-send", { toSessionId: "s1", content: "one" })
    await ask("mailbox-send", { toSessionId: "s1", content: "two", replyToId: messageId })
    const { messages } = await ask("mailbox-check", { after: messageId })
    expect(messages).toMatchObject([{ content: "two", fromSessionId: "s1", replyToId: messageId }])
    expect(await refused(ask("mailbox-check", { after: "yesterday-ish" }))).toContain("after")
    expect(await refused(ask("mailbox-send", { content: "to nobody" }))).toContain("exactly one")
  })
})

describe("workflows", () => {
  const data = { steps: [{ type: "bash", command: "true" }] }
  const other = { steps: [{ type: "bash", command: "false" }] }

  test("keep their versions, and go back to one", async () => {
    const { workflow } = await ask("workflow-sync", { name: "Nightly build", data })
    expect(workflow).toMatchObject({ slug: "nightly-build", version: "1.0.0" })
    await ask("workflow-sync", { name: "Nightly build", data: other })
    const { data: history } = await ask("workflow-api", {
      action: "history",
      payload: { workflowId: "nightly-build" },
    })
    expect(history).toMatchObject({ history: [{ version: "1.0.1" }, { version: "1.0.0" }] })
    const back = await ask("workflow-api", {
      action: "rollback",
      payload: { workflowId: "nightly-build", targetWorkflowHash: workflow["workflowHash"] },
    })
    expect(back.data).toMatchObject({ workflow: { data, version: "1.0.2" } })
    expect(
      await refused(
        ask("workflow-api", {
          action: "rollback",
          payload: { workflowId: "nightly-build", targetWorkflowHash: "sha256:none" },
        }),
      ),
    ).toContain("no version sha256:none")
  })

  test("take a proposal once it is approved, and only if nothing changed in between", async () => {
    const { workflow } = await ask("workflow-sync", { name: "Proposed", data })
    const base = { workflowId: "proposed", baseWorkflowHash: workflow["workflowHash"] }
    const made = await ask("workflow-api", {
      action: "proposal-create",
      payload: { ...base, proposal: other },
    })
    const late = await ask("workflow-api", {
      action: "proposal-create",
      payload: { ...base, proposal: { steps: [{}] } },
    })
    const idOf = (answer: { data?: unknown }) =>
      (answer.data as { proposal: { id: string } }).proposal.id
    const apply = (proposalId: string) =>
      ask("workflow-api", {
        action: "proposal-apply",
        payload: { workflowId: "proposed", proposalId },
      })
    const review = (proposalId: string) =>
      ask("workflow-api", {
        action: "proposal-review",
        payload: { workflowId: "proposed", proposalId, approve: true },
      })
    expect(await refused(apply(idOf(made)))).toContain("pending, not approved")
    await review(idOf(made))
    await review(idOf(late))
    expect((await apply(idOf(made))).data).toMatchObject({
      success: true,
      workflow: { data: other },
    })
    expect(await refused(apply(idOf(late)))).toContain("has changed since")
  })

  test("without steps are no workflows", async () => {
    expect(await refused(ask("workflow-sync", { name: "Empty", data: {} }))).toContain(
      "at least one step",
    )
  })

  test("run on the session's runner, wait for approval, and go on when it is given", async () => {
    await ask("workflow-sync", { name: "Runs", data })
    const { execution } = await ask("workflow-run", { workflowId: "runs", variables: { a: 1 } })
    const executionId = String(execution["id"])
    await until(() => orders().some((order) => order.executionId === executionId), "order")
    expect(orders().find((order) => order.executionId === executionId)?.payload).toMatchObject({
      kind: "run",
      payload: { workflow: data, variables: { a: 1 } },
    })
    const requiresApproval = { stepId: "s", prompt: "ok?", items: [], resumeToken: "token-1" }
    const envelope = { ok: true, status: "needs_approval", executionId, requiresApproval } as const
    setup.runner.send({ type: "workflow-execution-result", executionId, envelope })
    const get = () => ask("execution-api", { action: "get", payload: { executionId } })
    await waitFor(async () => JSON.stringify(await get()).includes("waiting_approval"))
    const approve = (resumeToken: string) =>
      ask("execution-api", {
        action: "approve",
        payload: { executionId, approve: true, resumeToken },
      })
    expect(await refused(approve("wrong"))).toContain("resumeToken")
    await approve("token-1")
    await until(
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
      (await ask("execution-api", { action: "steps", payload: { executionId } })).data,
    ).toEqual({
      steps: [{ stepId: "s", status: "ok" }],
    })
    expect(
      await refused(ask("execution-api", { action: "cancel", payload: { executionId } })),
    ).toContain("completed already")
  })

  test("are ordered anew from a runner that comes back without an answer, and not once there is one", async () => {
    await ask("workflow-sync", { name: "Lost", data })
    const { execution } = await ask("workflow-run", { workflowId: "lost" })
    const executionId = String(execution["id"])
    const ordered = () => orders().filter((order) => order.executionId === executionId).length
    await until(() => ordered() === 1, "order")
    setup.runner.uplink.redial("the test cuts the link")
    await until(() => ordered() === 2, "the same order")
    const envelope = { ok: true, status: "ok", executionId } as const
    setup.runner.send({ type: "workflow-execution-result", executionId, envelope })
    const get = () => ask("execution-api", { action: "get", payload: { executionId } })
    await waitFor(async () => JSON.stringify(await get()).includes("completed"))
    setup.runner.uplink.redial("the test cuts the link")
    // What is said after the connection is in order again is said after whatever comes with it.
    await ask("workflow-sync", { name: "After", data })
    const { execution: after } = await ask("workflow-run", { workflowId: "after" })
    await until(() => orders().some((order) => order.executionId === after["id"]), "order")
    expect(ordered()).toBe(2)
  })

  test("that are cancelled while they run are stopped on their channel", async () => {
    await ask("workflow-sync", { name: "Stopped", data })
    const { execution } = await ask("workflow-run", { workflowId: "stopped" })
    const executionId = String(execution["id"])
    await ask("execution-api", { action: "cancel", payload: { executionId } })
    await until(
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

  test("that are cancelled stay so, whatever their runner says later; who comes to an approval is denied it", async () => {
    await ask("workflow-sync", { name: "Late", data })
    const get = async (executionId: string) =>
      (await ask("execution-api", { action: "get", payload: { executionId } })).data as {
        execution: Record<string, unknown>
      }
    const cancelled = async () => {
      const { execution } = await ask("workflow-run", { workflowId: "late" })
      const executionId = String(execution["id"])
      await until(() => orders().some((order) => order.executionId === executionId), "order")
      await ask("execution-api", { action: "cancel", payload: { executionId } })
      return executionId
    }
    const [good, waiting] = [await cancelled(), await cancelled()]
    setup.runner.send({
      type: "workflow-execution-result",
      executionId: good,
      envelope: { ok: true, status: "ok", executionId: good, output: "done" },
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
    await until(() => decided() !== undefined, "denial")
    expect(decided()?.payload).toMatchObject({ decision: "deny", resumeToken: "token" })
    for (const id of [good, waiting]) {
      const { execution } = await get(id)
      expect(execution).toMatchObject({ status: "cancelled" })
      expect(execution).not.toHaveProperty("output")
    }
  })

  const orders = () =>
    setup.runner.frames.flatMap((frame) => (frame.type === "workflow-execute" ? [frame] : []))
})

const waitFor = async (condition: () => Promise<boolean>) => {
  const deadline = Date.now() + 10_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error("it did not come about")
    await Bun.sleep(10)
  }
}

describe("a webhook", () => {
  test("starts what it is for with its secret, and nothing without", async () => {
    await ask("workflow-sync", {
      name: "Hooked",
      data: { steps: [{ type: "bash", command: "true" }] },
    })
    const { data } = await ask("trigger-api", {
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
    const { executions } = await ask("workflow-executions", { workflowId: "hooked" })
    expect(executions).toMatchObject([{ triggerId: trigger.id, variables: { branch: "main" } }])
    const listed = await ask("trigger-api", { action: "list" })
    expect(JSON.stringify(listed)).not.toContain(trigger.secret)
  })
})

describe("other sessions", () => {
  test("are written to, read, forwarded and asked after", async () => {
    setup.hub.create("s2")
    await ask("session-message", { targetSessionId: "s2", content: "hello s2" })
    expect(
      (await ask("get-session-status", { targetSessionId: "s2" })).sessionStatus,
    ).toMatchObject({ queued: 1, connected: false })
    setup.hub.find("s2")?.note({ id: "n1", role: "assistant", content: "from s2" })
    const { messages } = await ask("session-messages", { targetSessionId: "s2" })
    expect(messages).toMatchObject([{ role: "assistant", content: "from s2" }])
    expect(await ask("forward-messages", { targetSessionId: "s2" })).toMatchObject({
      count: 1,
      sourceSessionId: "s2",
    })
    const here = setup.hub
      .find("s1")
      ?.recent(10)
      .map(({ parts }) => parts.map((part) => part.text).join(""))
    expect(here).toContain("assistant in s2: from s2")
    expect(
      await refused(ask("session-message", { targetSessionId: "s9", content: "?" })),
    ).toContain("there is no session s9")
    expect(await refused(ask("terminate-child", { childSessionId: "s2" }))).toContain(
      "s2 is not a child of this session",
    )
  })

  test("without a git host a pull request is refused with what to do", async () => {
    expect(await refused(ask("list-repos", {}))).toContain("GITHUB_TOKEN")
  })
})

test("a request that comes twice is carried out once and answered twice", async () => {
  const frame = {
    type: "memory-write",
    requestId: "twice",
    content: "only once",
    category: "c",
  } as const
  setup.runner.send(frame)
  setup.runner.send(frame)
  await waitFor(async () => (await ask("memory-read", { query: "only once" })).memories.length > 0)
  expect((await ask("memory-read", { category: "c" })).memories).toHaveLength(1)
})

/** Orders to run workflows: each is run once and answered once, whoever says it how often, and whoever is killed. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { Database } from "bun:sqlite"
import { createLog } from "../../../src/lib/log.ts"
import { createExecutions, type Executions } from "../../../src/runner/workflow/executions.ts"
import type { PerformStep } from "../../../src/runner/workflow/steps.ts"
import { type Envelope, openExecutionStore } from "../../../src/runner/workflow/execution-store.ts"
import { createManualClock } from "../../kit/clock.ts"

let db: Database
let answers: Envelope[]
let did: string[]
let lines: string[]
let executions: Executions

const perform: PerformStep = async (_execution, task, place, signal) => {
  did.push(place)
  if (task.type !== "bash" || task.command !== "wait") return task.id
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(new Error("ended")))
  })
}

/** A runner's life on the same disk: the one before it is gone without a word. */
const live = (): Executions => {
  const made = createExecutions({
    store: openExecutionStore(db),
    perform,
    findWorkflow: async () => ({ steps: [{ type: "bash", command: "kept" }] }),
    // As the link does it: the frame and what it tells of are stored together.
    answer: (_id, envelope) => {
      answers.push(envelope)
      made.persist()
      made.persisted()
    },
    clock: createManualClock(),
    newId: () => crypto.randomUUID(),
    log: createLog({
      level: "info",
      format: "json",
      secrets: [],
      write: (line) => void lines.push(line),
      now: Date.now,
    }),
  })
  return made
}

beforeEach(() => {
  db = new Database(":memory:", { strict: true })
  answers = []
  did = []
  lines = []
  executions = live()
})
afterEach(() => db.close())

const bash = (id: string, command = "true") => ({ type: "bash", id, command })
const APPROVED = [bash("a"), { type: "approval", id: "ok" }, bash("b")]
const order = (executionId: string, steps: readonly unknown[], more: object = {}) => ({
  executionId,
  payload: { kind: "run" as const, executionId, payload: { workflow: { steps }, ...more } },
})
const decide = (
  executionId: string,
  resumeToken: string | undefined,
  decision: "approve" | "deny" = "approve",
  more: { workflowHash?: string; payload?: Record<string, unknown> } = {},
) => ({
  executionId,
  payload: {
    kind: "resume" as const,
    executionId,
    resumeToken: resumeToken ?? "",
    decision,
    payload: {},
    ...more,
  },
})
const events = () => lines.map((line) => String(JSON.parse(line).event))
const settle = () => executions.settled()

test("an order is run and answered, with what each step did", async () => {
  executions.take(order("e1", [bash("a"), bash("b")]))
  await settle()
  expect(answers).toMatchObject([
    {
      ok: true,
      status: "ok",
      executionId: "e1",
      output: "b",
      steps: [
        { stepId: "a", status: "completed", attempt: 1, input: "true", output: "a" },
        { stepId: "b", status: "completed" },
      ],
    },
  ])
  const step = ["step.started", "step.completed"]
  expect(events()).toEqual(["execution.started", ...step, ...step, "execution.finished"])
})

describe("what is no good is answered too, and runs nothing:", () => {
  test.each([
    ["a bad step", order("e1", [{ type: "bash" }]), "steps.0.command"],
    [
      "no workflow",
      { ...order("e1", []), payload: { kind: "run", executionId: "e1", payload: {} } },
      "steps",
    ],
    [
      "a bad policy",
      order("e1", [bash("a")], { runtime: { policy: { maxSteps: 0 } } }),
      "maxSteps",
    ],
    ["bad variables", order("e1", [bash("a")], { variables: 7 }), "payload.variables"],
  ])("%s", async (_what, asked, words) => {
    executions.take(asked as never)
    await settle()
    expect(answers).toMatchObject([{ ok: false, status: "failed", executionId: "e1" }])
    expect(answers[0]?.error).toContain(words)
    expect(did).toEqual([])
  })

  test("a hash that is not the workflow's", async () => {
    const asked = order("e1", [bash("a")])
    executions.take({ ...asked, payload: { ...asked.payload, workflowHash: "sha256:00" } })
    await settle()
    expect(answers).toMatchObject([{ status: "failed" }])
    expect(did).toEqual([])
  })
})

describe("said twice", () => {
  const keyed = (id: string, steps: readonly unknown[], variables = {}) =>
    order(id, steps, { variables, runtime: { idempotencyKey: "k" } })

  test("while it runs, it is answered once", async () => {
    executions.take(order("e1", [bash("a")]))
    executions.take(order("e1", [bash("a")]))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers).toHaveLength(1)
  })

  test("after its end, it gets the same answer, in a later life of the runner as well", async () => {
    executions.take(keyed("e1", [bash("a")]))
    await settle()
    executions.take(keyed("e1", [bash("a")]))
    executions = live()
    executions.take(keyed("e1", [bash("a")]))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers).toHaveLength(3)
    expect(answers[1]).toEqual(answers[0] as Envelope)
    expect(answers[2]).toEqual(answers[0] as Envelope)
  })

  test("under another id with the same key, both are answered, and it runs once", async () => {
    executions.take(keyed("e1", [bash("a")]))
    executions.take(keyed("e2", [bash("a")]))
    await settle()
    await Promise.resolve()
    executions.take(keyed("e3", [bash("a")]))
    expect(did).toEqual(["a"])
    expect(answers.map(({ executionId }) => executionId)).toEqual(["e1", "e2", "e3"])
  })

  test("with the key of another run, it is refused", async () => {
    executions.take(keyed("e1", [bash("a")]))
    await settle()
    executions.take(keyed("e2", [bash("b")]))
    executions.take(keyed("e3", [bash("a")], { x: 1 }))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers.slice(1)).toMatchObject([{ status: "failed" }, { status: "failed" }])
  })
})

describe("an approval", () => {
  const waiting = async () => {
    executions.take(order("e1", APPROVED))
    await settle()
    const { requiresApproval } = answers[0] ?? {}
    expect(answers[0]).toMatchObject({ ok: true, status: "needs_approval" })
    return requiresApproval?.resumeToken
  }

  test("that is given lets it go on, in a later life too; said twice, once", async () => {
    const token = await waiting()
    executions = live()
    executions.take(decide("e1", token))
    executions.take(decide("e1", token))
    await settle()
    expect(did).toEqual(["a", "b"])
    expect(answers.slice(1)).toMatchObject([{ status: "ok", output: "b" }])
    executions.take(decide("e1", token, "deny"))
    await settle()
    expect(answers[2]).toEqual(answers[1] as Envelope)
    expect(events()).toContain("approval.required")
    expect(events()).toContain("execution.resumed")
  })

  test("that is denied cancels it, for good", async () => {
    const token = await waiting()
    executions.take(decide("e1", token, "deny"))
    executions.take(decide("e1", token))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers[1]).toMatchObject({ ok: false, status: "cancelled" })
    expect(answers[2]).toEqual(answers[1] as Envelope)
  })

  test.each([
    ["another token", (token?: string) => decide("e1", `${token}x`)],
    ["no token", () => decide("e1", undefined)],
    ["an execution that is not known", (token?: string) => decide("e2", token)],
    [
      "another hash",
      (token?: string) => decide("e1", token, "approve", { workflowHash: "sha256:1" }),
    ],
    [
      "another workflow",
      (token?: string) =>
        decide("e1", token, "approve", { payload: { workflow: { steps: [bash("x")] } } }),
    ],
  ])("with %s is refused, and the one that fits still counts", async (_what, bad) => {
    const token = await waiting()
    executions.take(bad(token))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers[1]).toMatchObject({ ok: false, status: "failed" })
    executions.take(decide("e1", token, "approve", { payload: { workflow: { steps: APPROVED } } }))
    await settle()
    expect(answers[2]).toMatchObject({ status: "ok" })
  })
})

test("a runner that is killed under it leaves it to the next, which says so once and does nothing again", async () => {
  executions.take(order("e1", [bash("a"), bash("b", "wait")]))
  while (did.length < 2) await Promise.resolve()
  executions = live()
  expect(executions.recover()).toEqual(["e1"])
  expect(answers).toMatchObject([
    {
      ok: false,
      status: "failed",
      steps: [
        { stepId: "a", status: "completed" },
        { stepId: "b", status: "failed" },
      ],
    },
  ])
  expect(answers[0]?.error).toContain("restarted")
  expect(live().recover()).toEqual([])
  executions.take(order("e1", [bash("a"), bash("b", "wait")]))
  expect(answers[1]).toEqual(answers[0] as Envelope)
  expect(did).toEqual(["a", "b"])
})

describe("stopping", () => {
  test("ends the one whose channel is meant, and leaves the others", async () => {
    executions.take(order("e1", [bash("a", "wait"), bash("b")]))
    executions.take(order("e2", [bash("c", "wait")]))
    await executions.stop({ channelType: "workflow", channelId: "e1" }, "stopped by the user")
    expect(answers).toMatchObject([
      { executionId: "e1", status: "cancelled", error: "stopped by the user" },
    ])
    await executions.stop(undefined, "the runner is shutting down")
    expect(answers[1]).toMatchObject({ executionId: "e2", status: "cancelled" })
    expect(did).toEqual(["a", "c"])
  })

  test("happens to what a shell has asked for when the shell goes away", async () => {
    const gone = new AbortController()
    const ended = executions.execute(order("s1", [bash("a", "wait")]), gone.signal)
    await Promise.resolve()
    gone.abort()
    expect(await ended).toMatchObject({ status: "cancelled" })
    expect(answers).toEqual([])
  })
})

test("a shell's order is answered to the shell alone, its approval too", async () => {
  const never = new AbortController().signal
  const first = await executions.execute(order("s1", APPROVED), never)
  const token = first.requiresApproval?.resumeToken
  expect(await executions.execute(decide("s1", `${token}x`), never)).toMatchObject({
    status: "failed",
  })
  expect(await executions.execute(decide("s1", token), never)).toMatchObject({ status: "ok" })
  expect(answers).toEqual([])
  expect(did).toEqual(["a", "b"])
})

test("a workflow that the session agent keeps runs as a subworkflow", async () => {
  executions.take(order("e1", [{ type: "subworkflow", id: "s", workflowId: "w" }]))
  await settle()
  expect(answers).toMatchObject([{ status: "ok", output: "step-1" }])
  expect(did).toEqual(["s/step-1"])
})

test("an answer stays small enough for the link, however much the steps said", async () => {
  const long = "x".repeat(60_000)
  const asked = order("e1", [
    { type: "loop", times: 50, steps: [{ type: "bash", command: `echo ${long}` }] },
  ])
  executions.take(asked)
  await settle()
  expect(JSON.stringify(answers[0]).length).toBeLessThan(700_000)
  expect(answers[0]?.steps).toHaveLength(51)
})

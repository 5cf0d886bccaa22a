/** Orders to run workflows: each runs once and gets one result, also with repeated orders and killed runners. */
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
let accepted: string[]
let lines: string[]
let executions: Executions

const perform: PerformStep = async (_execution, task, place, signal) => {
  did.push(place)
  if (task.type !== "bash" || task.command !== "wait") return task.id
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(new Error("ended")))
  })
}

/** Starts a runner on the same disk; the one before it counts as killed. */
const live = (): Executions => {
  const made = createExecutions({
    store: openExecutionStore(db),
    perform,
    findWorkflow: async () => ({ steps: [{ type: "bash", command: "kept" }] }),
    // As in the link: the frame and the state that it reports are stored together.
    answer: (_id, envelope) => {
      answers.push(envelope)
      made.persist()
      made.persisted()
    },
    accepted: (id) => void accepted.push(id),
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
  accepted = []
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

test("an order runs and its result contains a record of each step", async () => {
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

describe("orders that are not valid", () => {
  test.each([
    ["a bad step", order("e1", [{ type: "bash" }]), "steps.0.command"],
    [
      "an order without a workflow",
      { ...order("e1", []), payload: { kind: "run", executionId: "e1", payload: {} } },
      "steps",
    ],
    [
      "an order with a malformed policy",
      order("e1", [bash("a")], { runtime: { policy: { maxSteps: 0 } } }),
      "maxSteps",
    ],
    [
      "an order with malformed variables",
      order("e1", [bash("a")], { variables: 7 }),
      "payload.variables",
    ],
  ])("%s gets a failed result and runs nothing", async (_what, asked, message) => {
    executions.take(asked as never)
    await settle()
    expect(answers).toMatchObject([{ ok: false, status: "failed", executionId: "e1" }])
    expect(answers[0]?.error).toContain(message)
    expect(did).toEqual([])
  })

  test("an order with a wrong workflow hash gets a failed result and runs nothing", async () => {
    const asked = order("e1", [bash("a")])
    executions.take({ ...asked, payload: { ...asked.payload, workflowHash: "sha256:00" } })
    await settle()
    expect(answers).toMatchObject([{ status: "failed" }])
    expect(did).toEqual([])
  })
})

describe("repeated orders", () => {
  const keyed = (id: string, steps: readonly unknown[], variables = {}) =>
    order(id, steps, { variables, runtime: { idempotencyKey: "k" } })

  test("an order that is repeated during its run gets one result", async () => {
    executions.take(order("e1", [bash("a")]))
    executions.take(order("e1", [bash("a")]))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers).toHaveLength(1)
  })

  test("an order that is repeated after its end gets the same result, also from a restarted runner", async () => {
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

  test("two orders with one idempotency key run once and both get a result", async () => {
    executions.take(keyed("e1", [bash("a")]))
    executions.take(keyed("e2", [bash("a")]))
    await settle()
    await Promise.resolve()
    executions.take(keyed("e3", [bash("a")]))
    expect(did).toEqual(["a"])
    expect(answers.map(({ executionId }) => executionId)).toEqual(["e1", "e2", "e3"])
  })

  test("the idempotency key of a different run is rejected", async () => {
    executions.take(keyed("e1", [bash("a")]))
    await settle()
    executions.take(keyed("e2", [bash("b")]))
    executions.take(keyed("e3", [bash("a")], { x: 1 }))
    await settle()
    expect(did).toEqual(["a"])
    expect(answers.slice(1)).toMatchObject([{ status: "failed" }, { status: "failed" }])
  })
})

describe("approvals", () => {
  const waiting = async () => {
    executions.take(order("e1", APPROVED))
    await settle()
    const { requiresApproval } = answers[0] ?? {}
    expect(answers[0]).toMatchObject({ ok: true, status: "needs_approval" })
    return requiresApproval?.resumeToken
  }

  test("an approval resumes the run once, also in a restarted runner and when repeated", async () => {
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

  test("a denied approval cancels the run permanently", async () => {
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
      "a wrong hash",
      (token?: string) => decide("e1", token, "approve", { workflowHash: "sha256:1" }),
    ],
    [
      "a different workflow",
      (token?: string) =>
        decide("e1", token, "approve", { payload: { workflow: { steps: [bash("x")] } } }),
    ],
  ])("a resume with %s is rejected and a correct one still works", async (_what, bad) => {
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

test("after a killed runner the next one reports the run as failed once and repeats no step", async () => {
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

describe("cancelling executions", () => {
  test("cancelling one channel leaves other executions running", async () => {
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

  test("an execution of a shell is cancelled when the shell disconnects", async () => {
    const gone = new AbortController()
    const ended = executions.execute(order("s1", [bash("a", "wait")]), gone.signal)
    await Promise.resolve()
    gone.abort()
    expect(await ended).toMatchObject({ status: "cancelled" })
    expect(answers).toEqual([])
  })
})

test("results of a shell's order go to the shell only, also after an approval", async () => {
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

test("a workflow stored by the session agent runs as a subworkflow", async () => {
  executions.take(order("e1", [{ type: "subworkflow", id: "s", workflowId: "w" }]))
  await settle()
  expect(answers).toMatchObject([{ status: "ok", output: "step-1" }])
  expect(did).toEqual(["s/step-1"])
})

test("a result stays within the size limit for any amount of step output", async () => {
  const long = "x".repeat(60_000)
  const asked = order("e1", [
    { type: "loop", times: 50, steps: [{ type: "bash", command: `echo ${long}` }] },
  ])
  executions.take(asked)
  await settle()
  expect(JSON.stringify(answers[0]).length).toBeLessThan(700_000)
  expect(answers[0]?.steps).toHaveLength(51)
})

describe("an order that a runner has accepted before", () => {
  test("a run is reported as accepted when it is stored, and again when it resumes", async () => {
    executions.take(order("e1", APPROVED))
    await executions.settled()
    expect(accepted).toEqual(["e1"])
    executions.take(decide("e1", answers[0]?.requiresApproval?.resumeToken))
    await executions.settled()
    expect(accepted).toEqual(["e1", "e1"])
  })

  test("a delivered order whose journal is lost is answered as failed and runs nothing", async () => {
    executions.take({ ...order("e1", [bash("a")]), delivered: true })
    await executions.settled()
    expect(did).toEqual([])
    expect(answers).toMatchObject([{ ok: false, status: "failed", executionId: "e1" }])
    expect(answers[0]?.error).toContain("journal is lost")
  })

  test("a delivered order whose journal is there is answered with its result", async () => {
    executions.take(order("e1", [bash("a")]))
    await executions.settled()
    executions = live()
    executions.take({ ...order("e1", [bash("a")]), delivered: true })
    await executions.settled()
    expect(did).toEqual(["a"])
    expect(answers).toMatchObject([{ status: "ok" }, { status: "ok" }])
  })
})

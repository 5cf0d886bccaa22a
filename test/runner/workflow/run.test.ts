/** The walk through a workflow, with fake step effects: order, scopes, approvals, failures. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { compile } from "../../../src/runner/workflow/compile.ts"
import {
  run,
  type RunOptions,
  type StepRecord,
  type Task,
} from "../../../src/runner/workflow/run.ts"

type Change = Partial<Omit<RunOptions, "steps">>

const start = (steps: readonly unknown[], change: Change = {}) => {
  const did: string[] = []
  const journal = change.journal ?? new Map<string, StepRecord>()
  const perform = async (task: Task, place: string) => {
    did.push(`${place}: ${task.type === "bash" ? task.command : JSON.stringify(task)}`)
    if (task.type === "bash" && task.command.startsWith("fail")) throw new Error("exit code 1")
    return task.type === "bash" ? `<${task.command}>` : task
  }
  const ended = run({
    steps: compile({ steps }).steps,
    variables: {},
    journal,
    approved: [],
    maxSteps: 100,
    attempt: 1,
    signal: new AbortController().signal,
    now: () => 0,
    perform,
    findWorkflow: async () => {
      throw new Error("there is none")
    },
    note: () => {},
    ...change,
  })
  return { did, journal, ended }
}
const bash = (id: string, command = id, more = {}) => ({ type: "bash", id, command, ...more })

test("steps run in written order and the last output is the result", async () => {
  const { did, ended } = start([bash("a"), bash("b"), bash("c")])
  expect(await ended).toEqual({ status: "ok", output: "<c>" })
  expect(did).toEqual(["a: a", "b: b", "c: c"])
})

describe("placeholders", () => {
  test("placeholders are filled with variables and outputs in one pass", async () => {
    const { did, ended } = start(
      [
        bash("a", "echo {{variables.who}} {{ variables.deep.list }}", { outputVariable: "said" }),
        bash("b", "{{outputs.a}} {{variables.said}}"),
      ],
      { variables: { who: "{{outputs.b}}", deep: { list: [1] } } },
    )
    expect(await ended).toMatchObject({ status: "ok" })
    expect(did[0]).toBe("a: echo {{outputs.b}} [1]")
    expect(did[1]).toBe("b: <echo {{outputs.b}} [1]> <echo {{outputs.b}} [1]>")
  })

  test("an unknown placeholder fails its step before it has an effect", async () => {
    const { did, ended } = start([bash("a", "rm -rf {{variables.folder}}/x")])
    expect(await ended).toEqual({ status: "failed", error: "a: there is no variables.folder" })
    expect(did).toEqual([])
    const { ended: sly } = start([bash("a", "{{variables.constructor}}")])
    expect(await sly).toMatchObject({ status: "failed" })
  })

  test("an argument that is exactly one placeholder keeps the type of its value", async () => {
    const { ended } = start([{ type: "tool", tool: "t", arguments: { n: "{{variables.n}}" } }], {
      variables: { n: { x: 1 } },
    })
    expect(await ended).toMatchObject({ output: { arguments: { n: { x: 1 } } } })
  })
})

test("a failed step ends the run and is named in the error", async () => {
  const { did, ended, journal } = start([bash("a"), bash("b", "fail"), bash("c")])
  expect(await ended).toEqual({ status: "failed", error: "b: exit code 1" })
  expect(did).toHaveLength(2)
  expect(journal.get("b")).toMatchObject({ status: "failed", error: "exit code 1" })
})

test("a conditional compares values, not their JSON text, and runs one branch", async () => {
  const when = (condition: unknown) => ({
    type: "conditional",
    condition,
    then: [bash("yes")],
    else: [bash("no")],
  })
  const taken = async (condition: unknown, variables = {}) => {
    const { did, ended } = start([when(condition)], { variables })
    await ended
    return did[0]
  }
  expect(await taken(true)).toBe("yes: yes")
  expect(await taken(false)).toBe("no: no")
  const equals = { variable: "x", equals: { a: 1, b: [2] } }
  expect(await taken(equals, { x: { b: [2], a: 1 } })).toBe("yes: yes")
  expect(await taken(equals, { x: "other" })).toBe("no: no")
})

describe("loops", () => {
  test("a loop runs over a list, a variable or a count and returns each iteration's output", async () => {
    const over = async (more: object) => {
      const steps = [{ type: "loop", id: "l", ...more, steps: [bash("in", "{{variables.item}}")] }]
      const { ended } = start(steps, { variables: { list: ["x", "y"] } })
      return ended
    }
    expect(await over({ over: ["p", "q"] })).toMatchObject({ output: ["<p>", "<q>"] })
    expect(await over({ over: "list" })).toMatchObject({ output: ["<x>", "<y>"] })
    expect(await over({ over: "{{variables.list}}" })).toMatchObject({ output: ["<x>", "<y>"] })
    expect(await over({ times: 3 })).toMatchObject({ output: ["<0>", "<1>", "<2>"] })
    expect(await over({ over: "nothing" })).toMatchObject({ status: "failed" })
  })

  test("a loop above maxIterations runs nothing", async () => {
    const loop = { type: "loop", id: "l", over: "list", steps: [bash("in")] }
    const variables = { list: Array.from({ length: 101 }, () => "x") }
    const { did, ended } = start([loop], { variables })
    expect(await ended).toMatchObject({
      status: "failed",
      error: "l: 101 iterations exceed maxIterations (100)",
    })
    expect(did).toEqual([])
  })
})

test("parallel steps run concurrently and all end before a failure is reported", async () => {
  const waiting: (() => void)[] = []
  const perform = (task: Task) =>
    new Promise<unknown>((resolve, reject) => {
      waiting.push(() => (task.id === "b" ? reject(new Error("no")) : resolve(task.id)))
      if (waiting.length === 3) for (const end of waiting) end()
    })
  const steps = [{ type: "parallel", steps: [bash("a"), bash("b"), bash("c")] }, bash("after")]
  const { ended, journal } = start(steps, { perform })
  expect(await ended).toEqual({ status: "failed", error: "b: no" })
  expect(["a", "b", "c"].map((id) => journal.get(id)?.status)).toEqual([
    "completed",
    "failed",
    "completed",
  ])
})

describe("subworkflows", () => {
  test("a subworkflow has its own variables and outputs and returns its last output", async () => {
    const inner = { steps: [bash("a", "{{variables.x}}")] }
    const { did, ended } = start(
      [
        bash("a", "outer"),
        { type: "subworkflow", id: "s", workflow: inner, variables: { x: "{{outputs.a}}" } },
        bash("b", "{{outputs.a}} {{outputs.s}}"),
      ],
      { variables: { x: "not this" } },
    )
    expect(await ended).toMatchObject({ status: "ok" })
    expect(did).toEqual(["a: outer", "s/a: <outer>", "b: <outer> <<outer>>"])
  })

  test("a stored subworkflow that changes during an approval continues with its first definition", async () => {
    const steps = [{ type: "subworkflow", id: "s", workflowId: "kept" }]
    const kept = (command: string) => ({
      findWorkflow: async () => ({ steps: [{ type: "approval", id: "ok" }, bash("b", command)] }),
    })
    const { journal, ended } = start(steps, kept("old"))
    expect(await ended).toMatchObject({ status: "needs_approval", stepId: "s/ok" })
    const later = start(steps, { ...kept("new"), journal, approved: ["s/ok"] })
    expect(await later.ended).toEqual({ status: "ok", output: "<old>" })
  })

  test("a subworkflow that calls itself fails at the depth limit", async () => {
    const self = [{ type: "subworkflow", id: "s", workflowId: "me" }]
    const { ended } = start(self, { findWorkflow: async () => ({ steps: self }) })
    expect(await ended).toMatchObject({ status: "failed" })
  })
})

test("steps beyond the policy's limit are not run", async () => {
  const { did, ended } = start([{ type: "loop", times: 9, steps: [bash("in")] }], { maxSteps: 5 })
  expect(await ended).toMatchObject({ status: "failed" })
  expect(did).toHaveLength(4)
})

test("a cancelled run starts no further step", async () => {
  const stopping = new AbortController()
  const did: string[] = []
  const { ended } = start([bash("a"), bash("b")], {
    signal: stopping.signal,
    perform: async ({ id }) => {
      did.push(id)
      stopping.abort("stopped by the user")
      return id
    },
  })
  expect(await ended).toEqual({ status: "cancelled", error: "stopped by the user" })
  expect(did).toEqual(["a"])
})

test("an approval pauses the run with its prompt filled in, and resuming repeats no earlier step", async () => {
  const steps = [
    bash("a"),
    { type: "approval", id: "ok", prompt: "Deploy {{outputs.a}}?", items: ["{{variables.x}}"] },
    bash("b", "{{outputs.a}}"),
  ]
  const first = start(steps, { variables: { x: 1 } })
  expect(await first.ended).toEqual({
    status: "needs_approval",
    stepId: "ok",
    prompt: "Deploy <a>?",
    items: [1],
  })
  const { journal } = first
  const second = start(steps, { variables: { x: 1 }, journal, approved: ["ok"] })
  expect(await second.ended).toEqual({ status: "ok", output: "<<a>>" })
  expect(second.did).toEqual(["b: <a>"])
})

test("for any order of approvals a run performs each step once and ends like an uninterrupted run", async () => {
  const leaf = fc.constantFrom("bash", "approval")
  interface Shape {
    readonly kind: string
    readonly below: readonly Shape[]
  }
  const { shape } = fc.letrec<{ shape: Shape }>((tie) => ({
    shape: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      leaf.map((kind) => ({ kind, below: [] })),
      fc.record({
        kind: fc.constantFrom("parallel", "loop", "conditional", "subworkflow"),
        below: fc.array(tie("shape"), { minLength: 1, maxLength: 3 }),
      }),
    ),
  }))
  const written = ({ kind, below }: Shape): unknown => {
    const steps = below.map(written)
    switch (kind) {
      case "bash":
        return { type: "bash", command: "do it" }
      case "approval":
        return { type: "approval" }
      case "parallel":
        return { type: "parallel", steps }
      case "loop":
        return { type: "loop", times: 2, steps }
      case "conditional":
        return { type: "conditional", condition: { variable: "x", equals: 1 }, then: steps }
      default:
        return { type: "subworkflow", workflow: { steps }, variables: { x: 1 } }
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(shape, { minLength: 1, maxLength: 4 }), async (shapes) => {
      const steps = shapes.map(written)
      const options = { variables: { x: 1 }, maxSteps: 100_000 }
      const did: string[] = []
      const perform = async (_task: Task, place: string) => {
        did.push(place)
        return `out of ${place}`
      }
      const journal = new Map<string, StepRecord>()
      const approved: string[] = []
      for (;;) {
        const end = await start(steps, { ...options, journal, approved, perform }).ended
        if (end.status !== "needs_approval") {
          expect(end.status).toBe("ok")
          const places = [...did]
          const all = await start(steps, {
            ...options,
            perform,
            approved: { includes: () => true } as never,
          }).ended
          expect(all).toEqual(end)
          expect(places.toSorted()).toEqual([...new Set(places)].toSorted())
          expect(did.slice(places.length).toSorted()).toEqual(places.toSorted())
          return
        }
        expect(approved).not.toContain(end.stepId)
        approved.push(end.stepId)
      }
    }),
  )
})

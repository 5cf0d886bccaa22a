/** What the sets of tools put into a real request to a model, compared with a request of OpenCode alone. */
import { describe, expect, test } from "bun:test"
import { setSizes, tokenBudget } from "../../docs/render/tool-budget.ts"
import { toolSwitchesOf } from "../../src/hub/tool-switches.ts"
import {
  toolGroups,
  type ToolSet,
  toolSets,
  workflowUseTools,
} from "../../src/wire/operations/tool-sets.ts"
import { tools } from "../../tools/index.ts"
import { failureOf } from "../kit/failure-of.ts"
import {
  type FirstRequest,
  firstRequestOfOpenCodeAlone,
  firstRequestWith,
  tokensOf,
} from "../kit/first-request.ts"

const ours = ({ names }: FirstRequest) => names.filter((name) => name in tools).toSorted()

/** Each request is made once for all tests, in the first one that needs it: a test has time for one or two starts of OpenCode. */
const once = <Value>(make: () => Promise<Value>): (() => Promise<Value>) => {
  let made: Promise<Value> | undefined
  return () => (made ??= make())
}
const alone = once(firstRequestOfOpenCodeAlone)
const bare = once(() =>
  firstRequestWith("team", {
    environment: {
      SANDPIPER_SECRETS_FILE: "",
      PARALLEL_API_KEY: "",
      PARENT_SESSION_ID: "",
      PATH: "/usr/bin:/bin",
    },
    tools: toolSwitchesOf({ hasGitHost: false, hasWorkflows: true }),
  }),
)
const requests = new Map(toolSets.map((set) => [set, once(() => firstRequestWith(set))] as const))
const requestOf = (set: ToolSet): Promise<FirstRequest> => {
  const request = requests.get(set)
  if (!request) throw new Error(`no request of ${set}`)
  return request()
}

test("every tool is in exactly one group of a set", () => {
  expect(toolGroups.flatMap((group) => group.tools).toSorted()).toEqual(
    Object.keys(tools).toSorted(),
  )
})

describe.each([...toolSets])("the set %s", (set) => {
  test(`the set ${set} offers its tools to the model and no others`, async () => {
    const expected = setSizes(tools).find((size) => size.set === set)?.tools ?? []
    expect(ours(await requestOf(set))).toEqual([...expected].toSorted())
  })

  test(`the set ${set} adds at most ${tokenBudget[set]} tokens to a request of OpenCode alone`, async () => {
    const added = tokensOf((await requestOf(set)).bytes - (await alone()).bytes)
    expect(added).toBeGreaterThan(0)
    expect(added).toBeLessThanOrEqual(tokenBudget[set])
  })

  test(`the documented size of the set ${set} is that of a real request`, async () => {
    const inRequest = (await requestOf(set)).tools.filter(({ function: { name } }) => name in tools)
    const bytes = inRequest.reduce(
      (sum, tool) => sum + Buffer.byteLength(JSON.stringify(tool)) + 1,
      0,
    )
    expect(setSizes(tools).find((size) => size.set === set)?.bytes).toBe(bytes)
  })
})

test("the set all has all 68 tools", async () => {
  expect(ours(await requestOf("all"))).toHaveLength(68)
})

test("tools whose requirements are missing are not offered, and a hub with workflows adds those that run them", async () => {
  const offered = ours(await bare())
  const absent = [
    "parallel_web_search",
    "secret_run",
    "browser_screenshot",
    "notify_parent",
    "create_pull_request",
    "sync_workflow",
  ]
  for (const name of absent) expect(offered).not.toContain(name)
  expect(offered).toContain("list_workflows")
  expect(offered).toContain("run_workflow")
  expect(offered).toContain("spawn_session")
})

test("with workflows in the hub every set stays within its budget", async () => {
  const added = setSizes(tools)
    .find(({ set }) => set === "all")
    ?.each.filter(({ name }) => workflowUseTools.includes(name))
  const bytes = added?.reduce((sum, tool) => sum + tool.bytes, 0) ?? 0
  expect(added).toHaveLength(workflowUseTools.length)
  const base = (await alone()).bytes
  for (const set of ["core", "team"] as const)
    expect(tokensOf((await requestOf(set)).bytes + bytes - base)).toBeLessThanOrEqual(
      tokenBudget[set],
    )
})

test("the instructions name tools of the team only in the sets that have them", async () => {
  expect((await requestOf("core")).text).not.toContain("memory_read")
  expect((await requestOf("team")).text).toContain("search with `memory_read`")
  expect((await requestOf("all")).text).toContain("search with `memory_read`")
})

test("no schema names its dialect, which tells a model nothing", async () => {
  expect((await alone()).text).toContain("json-schema.org")
  for (const { function: tool } of (await requestOf("all")).tools.filter(
    ({ function: { name } }) => name in tools,
  ))
    expect(JSON.stringify(tool.parameters)).not.toContain("$schema")
})

test("a turn that ends without a request to the model is an error that shows what the runner said", async () => {
  const said = await failureOf(firstRequestWith("core", { model: "scripted/unknown" }))
  expect(said).toContain("no request with tools among 0\n")
  expect(said).toMatch(/\nframes: .*agentStatus.* error complete\n/)
  expect(said).toMatch(/\nerror: .*Model not found: scripted\/unknown/)
  expect(said).toMatch(/\nlast lines of the log:\n(.*\n)*.*"event":"turn\.ended"/)
})

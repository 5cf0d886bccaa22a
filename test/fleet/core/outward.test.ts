/** What the fleet shows and sets outside: statuses, names and the environment of a sandbox. */
import { describe, expect, test } from "bun:test"
import { assembleEnvironment, refuseVariables } from "../../../src/fleet/core/environment.ts"
import { newLife } from "../../../src/fleet/core/life.ts"
import { labelsOf, sandboxName, workspaceVolume } from "../../../src/fleet/core/names.ts"
import { isNewProvision, statusOf } from "../../../src/fleet/core/statuses.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import { type Flags, lifeWith } from "../kit/life.ts"

describe("the environment of a sandbox", () => {
  const core = { RUNNER_TOKEN: "t" }

  test("the fleet's own variables replace those of a caller", () => {
    const environment = assembleEnvironment({
      providerKeys: { OPENAI_API_KEY: "deployment" },
      credentials: {},
      github: { GITHUB_TOKEN: "g" },
      caller: { OPENAI_API_KEY: "own", RUNNER_TOKEN: "stolen" },
      core,
    })
    expect(environment).toEqual({ OPENAI_API_KEY: "own", GITHUB_TOKEN: "g", RUNNER_TOKEN: "t" })
  })

  test("a caller that sets a variable of the fleet is refused with its name", () => {
    const isReserved = (name: string) => name === "RUNNER_TOKEN"
    expect(refuseVariables({ A: "1" }, isReserved)).toBeUndefined()
    expect(refuseVariables({ RUNNER_TOKEN: "x" }, isReserved)).toContain("RUNNER_TOKEN")
    expect(refuseVariables({ "A B": "x" }, isReserved)).toContain("A B")
  })
})

describe("names of sandboxes and volumes", () => {
  test("different sessions have different names, also if they read the same", () => {
    const names = ["a/b", "a b", "A-B", "日本"].map((id) => sandboxName(id, 3, digestOf))
    expect(new Set(names).size).toBe(4)
    for (const name of names) expect(name).toMatch(/^sp-[a-z0-9-]{1,50}-3$/)
    expect(labelsOf("d", "t", "s", 3).generation).toBe("3")
  })

  test("the orchestrator sessions of one user share a workspace", () => {
    expect(workspaceVolume("s1")).toBe("workspace-s1")
    expect(workspaceVolume("orchestrator:ada:1")).toBe("workspace-orchestrator-ada")
    expect(workspaceVolume("orchestrator:ada:2")).toBe(workspaceVolume("orchestrator:ada:1"))
  })
})

test("each phase has its outward status", () => {
  const status = (flags: Flags) => statusOf(lifeWith({ wanted: "running", ...flags }))
  expect(status({})).toMatchObject({ status: "warm", threadStatus: "creating" })
  expect(status({ snapshot: { id: "s" } })).toMatchObject({ threadStatus: "resuming" })
  expect(status({ phase: "booting", ref: "a" })).toMatchObject({ providerSandboxId: "a" })
  expect(status({ phase: "running", ref: "a" })).toMatchObject({ status: "running" })
  expect(status({ phase: "paused", ref: "a" })).toMatchObject({ threadStatus: "resuming" })
  expect(status({ phase: "paused", ref: "a", wanted: "asleep" })).toMatchObject({
    status: "paused",
  })
  expect(status({ snapshot: { id: "s" }, wanted: "asleep" })).toMatchObject({ status: "paused" })
  expect(status({ failed: true })).toMatchObject({ threadStatus: "error" })
  expect(status({ phase: "ended" })).toMatchObject({ status: "terminated" })
})

test("a sandbox that is not made yet is new if an earlier one had files that nothing brings back", () => {
  const made = lifeWith({ phase: "booting", generation: 1, ref: "a" })
  expect(isNewProvision(newLife, false)).toBe(false)
  expect(isNewProvision(made, false)).toBe(false)
  expect(isNewProvision({ ...newLife, generation: 1 }, false)).toBe(true)
  expect(isNewProvision({ ...newLife, generation: 1 }, true)).toBe(false)
  expect(isNewProvision({ ...newLife, generation: 1, snapshot: { id: "s" } }, false)).toBe(false)
})

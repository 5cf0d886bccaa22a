/** Rows of the tools for workflows, triggers and executions. */
import { expect } from "bun:test"
import { OWN_CONNECTION } from "../kit/hosts.ts"
import type { House } from "../kit/house.ts"
import {
  executionOf,
  objectIn,
  type Rows,
  runWorkflow,
  storeWorkflow,
  succeed,
  untilFile,
  untilStatus,
  untilTrue,
} from "../kit/row.ts"

const writes = (file: string, content = "ran") => [
  { type: "bash", id: "write", command: `echo ${content} > ${file}` },
]

type Action = "get" | "proposals" | "proposal-create" | "proposal-review" | "proposal-apply"

const workflowApi = async ({ other }: House, action: Action, payload: Record<string, unknown>) =>
  (await other.uplink.request("workflow-api", { action, payload })).data as Record<string, unknown>

const stepsOf = async (house: House, workflowId: string) => {
  const { workflow } = await workflowApi(house, "get", { workflowId })
  return (workflow as { data: { steps: readonly object[] } }).data.steps
}

const propose = async (house: House, slug: string): Promise<string> => {
  const { workflowHash } = await storeWorkflow(house, slug, writes("old.txt"))
  const { proposal } = await workflowApi(house, "proposal-create", {
    workflowId: slug,
    baseWorkflowHash: workflowHash,
    proposal: { steps: writes("new.txt") },
  })
  return (proposal as { id: string }).id
}

const createTrigger = async (house: House, slug: string, file: string) => {
  await storeWorkflow(house, slug, writes(file, "{{variables.what}}"))
  const { shown } = await succeed(house, "sync_trigger", {
    name: slug,
    type: "webhook",
    workflow_id: slug,
    variable_mapping: { what: "bird" },
  })
  return objectIn(shown) as { readonly id: string; readonly secret: string }
}

const callHook = ({ url }: House, { id, secret }: { id: string; secret: string }, data: object) =>
  fetch(`${url}/hooks/${id}`, {
    method: "POST",
    ...OWN_CONNECTION,
    headers: { authorization: `Bearer ${secret}` },
    body: JSON.stringify(data),
  })

export const workflowRows: Rows<
  | "sync_workflow"
  | "list_workflows"
  | "get_workflow"
  | "update_workflow"
  | "delete_workflow"
  | "run_workflow"
  | "list_workflow_history"
  | "rollback_workflow"
  | "list_workflow_proposals"
  | "create_workflow_proposal"
  | "review_workflow_proposal"
  | "apply_workflow_proposal"
  | "list_workflow_executions"
> = {
  sync_workflow: async (house) => {
    const data = { steps: writes("synced.txt") }
    await succeed(house, "sync_workflow", { slug: "synced", name: "Synced", data })
    const { workflows } = await house.other.uplink.request("workflow-list", {})
    expect(workflows).toContainEqual(expect.objectContaining({ slug: "synced", steps: 1 }))
  },
  list_workflows: async (house) => {
    await storeWorkflow(house, "listed-here", writes("listed.txt"))
    const { read } = await succeed(house, "list_workflows", {})
    expect(read).toContain("listed-here")
    expect(read).not.toContain("listed.txt")
  },
  get_workflow: async (house) => {
    await storeWorkflow(house, "read-here", writes("command-to-read.txt"))
    const { read } = await succeed(house, "get_workflow", { id: "read-here" })
    expect(read).toContain("command-to-read.txt")
  },
  update_workflow: async (house) => {
    await storeWorkflow(house, "updated", writes("old.txt"))
    await succeed(house, "update_workflow", {
      id: "updated",
      data: { steps: writes("new.txt") },
    })
    expect(await stepsOf(house, "updated")).toEqual(writes("new.txt"))
  },
  delete_workflow: async (house) => {
    await storeWorkflow(house, "deleted", writes("never.txt"))
    await succeed(house, "delete_workflow", { id: "deleted" })
    const { workflows } = await house.other.uplink.request("workflow-list", {})
    expect(workflows).not.toContainEqual(expect.objectContaining({ slug: "deleted" }))
  },
  run_workflow: async (house) => {
    await storeWorkflow(house, "run-here", writes("run-here.txt", "{{variables.what}}"))
    await succeed(house, "run_workflow", { workflowId: "run-here", variables: { what: "heron" } })
    expect(await untilFile(house.inWorkspace("run-here.txt"))).toBe("heron\n")
  },
  list_workflow_history: async (house) => {
    const first = await storeWorkflow(house, "history", writes("first.txt"))
    const second = await storeWorkflow(house, "history", writes("second.txt"))
    const { read } = await succeed(house, "list_workflow_history", { id: "history" })
    expect(read).toContain(first.workflowHash)
    expect(read).toContain(second.workflowHash)
  },
  rollback_workflow: async (house) => {
    const first = await storeWorkflow(house, "rolled-back", writes("first.txt"))
    await storeWorkflow(house, "rolled-back", writes("second.txt"))
    const args = { id: "rolled-back", targetWorkflowHash: first.workflowHash }
    await succeed(house, "rollback_workflow", args)
    expect(await stepsOf(house, "rolled-back")).toEqual(writes("first.txt"))
  },
  list_workflow_proposals: async (house) => {
    const pid = await propose(house, "proposed-there")
    const { read } = await succeed(house, "list_workflow_proposals", { id: "proposed-there" })
    expect(read).toContain(pid)
    expect(read).toContain("new.txt")
  },
  create_workflow_proposal: async (house) => {
    const { workflowHash } = await storeWorkflow(house, "proposed-here", writes("old.txt"))
    await succeed(house, "create_workflow_proposal", {
      id: "proposed-here",
      baseWorkflowHash: workflowHash,
      proposal: { steps: writes("better.txt") },
    })
    const listed = await workflowApi(house, "proposals", { workflowId: "proposed-here" })
    expect(listed["proposals"]).toEqual([
      expect.objectContaining({
        proposedBySessionId: "main",
        status: "pending",
        proposal: { steps: writes("better.txt") },
      }),
    ])
  },
  review_workflow_proposal: async (house) => {
    const pid = await propose(house, "reviewed")
    await succeed(house, "review_workflow_proposal", { id: "reviewed", pid, approve: true })
    await workflowApi(house, "proposal-apply", { workflowId: "reviewed", proposalId: pid })
    expect(await stepsOf(house, "reviewed")).toEqual(writes("new.txt"))
  },
  apply_workflow_proposal: async (house) => {
    const pid = await propose(house, "applied")
    await succeed(house, "review_workflow_proposal", { id: "applied", pid, approve: true })
    expect(await stepsOf(house, "applied")).toEqual(writes("old.txt"))
    await succeed(house, "apply_workflow_proposal", { id: "applied", pid })
    expect(await stepsOf(house, "applied")).toEqual(writes("new.txt"))
  },
  list_workflow_executions: async (house) => {
    await storeWorkflow(house, "run-often", writes("often.txt"))
    const runs = [await runWorkflow(house, "run-often"), await runWorkflow(house, "run-often")]
    const { read } = await succeed(house, "list_workflow_executions", { workflowId: "run-often" })
    for (const id of runs) expect(read).toContain(id)
  },
}

export const triggerRows: Rows<
  "list_triggers" | "sync_trigger" | "run_trigger" | "delete_trigger"
> = {
  list_triggers: async (house) => {
    await storeWorkflow(house, "at-night", writes("night.txt"))
    await house.other.uplink.request("trigger-api", {
      action: "create",
      payload: {
        name: "Every night",
        workflowId: "at-night",
        config: { type: "schedule", cron: "0 3 * * *" },
      },
    })
    const { read } = await succeed(house, "list_triggers", { workflowId: "at-night" })
    expect(read).toContain("Every night")
    expect(read).toContain("0 3 * * *")
  },
  sync_trigger: async (house) => {
    const trigger = await createTrigger(house, "called", "called.txt")
    expect((await callHook(house, trigger, { bird: "egret" })).status).toBe(202)
    expect(await untilFile(house.inWorkspace("called.txt"))).toBe("egret\n")
  },
  run_trigger: async (house) => {
    const { id } = await createTrigger(house, "fired", "fired.txt")
    await succeed(house, "run_trigger", { id, variables: { what: "bittern" } })
    expect(await untilFile(house.inWorkspace("fired.txt"))).toBe("bittern\n")
  },
  delete_trigger: async (house) => {
    const trigger = await createTrigger(house, "removed", "removed.txt")
    await succeed(house, "delete_trigger", { id: trigger.id })
    expect((await callHook(house, trigger, { bird: "egret" })).status).toBe(404)
  },
}

export const executionRows: Rows<
  "get_execution" | "get_execution_steps" | "cancel_execution" | "debug_execution"
> = {
  get_execution: async (house) => {
    await storeWorkflow(house, "printed", [{ type: "bash", command: "echo plumage" }])
    const id = await runWorkflow(house, "printed")
    await untilStatus(house, id, "completed")
    const { read } = await succeed(house, "get_execution", { id })
    expect(read).toContain("completed")
    expect(read).toContain("plumage")
  },
  get_execution_steps: async (house) => {
    await storeWorkflow(house, "stepwise", [
      { type: "bash", id: "one", command: "echo feather" },
      { type: "bash", id: "two", command: "echo beak" },
    ])
    const id = await runWorkflow(house, "stepwise")
    await untilStatus(house, id, "completed")
    const { read } = await succeed(house, "get_execution_steps", { id })
    expect(read).toContain("feather")
    expect(read).toContain("beak")
  },
  cancel_execution: async (house) => {
    // The pid makes this command line unique on the machine.
    const command = `sleep 731.${process.pid}`
    const processes = () => Bun.spawnSync(["pgrep", "-fx", command]).stdout.toString()
    await storeWorkflow(house, "slow", [{ type: "bash", command }])
    const id = await runWorkflow(house, "slow")
    await untilTrue(() => processes() !== "", "command of the workflow")
    await succeed(house, "cancel_execution", { id })
    await untilTrue(() => processes() === "", "end of the command")
    expect((await executionOf(house, id))["status"]).toBe("cancelled")
  },
  debug_execution: async (house) => {
    await storeWorkflow(house, "broken", [
      { type: "bash", id: "break", command: "echo the egg is broken >&2; exit 7" },
    ])
    const id = await runWorkflow(house, "broken")
    await untilStatus(house, id, "failed")
    const { read } = await succeed(house, "debug_execution", { id })
    expect(read).toContain("break")
    expect(read).toContain("the egg is broken")
  },
}

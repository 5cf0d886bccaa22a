/** `sandpiper workflow validate` and the hub compute the same hash. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { runWorkflowCommand } from "../../src/cli/workflow.ts"
import { readInvocation } from "../../src/settings/settings.ts"
import { startTestLocalHub, type TestLocalHub } from "../hub/kit/local-hub.ts"

let setup: TestLocalHub
beforeAll(async () => {
  setup = await startTestLocalHub()
})
afterAll(() => setup.stop())

const validate = async (definition: unknown) => {
  const file = join(setup.folder, "workflow.json")
  await writeFile(file, JSON.stringify(definition))
  const invocation = readInvocation(["workflow", "validate", file], {}, setup.folder)
  if (invocation.want !== "command") throw new Error("not a command")
  return runWorkflowCommand(invocation.settings, invocation.args)
}

test.each([
  ["with ids", { steps: [{ id: "a", type: "bash", command: "true" }] }],
  [
    "without ids",
    {
      steps: [
        { type: "bash", command: "true" },
        { command: "x", type: "bash" },
      ],
    },
  ],
  ["with nested steps", { steps: [{ type: "loop", times: 2, steps: [{ type: "approval" }] }] }],
])("the hash of a workflow %s is the hub's hash and its baseWorkflowHash", async (name, data) => {
  const { report } = await validate(data)
  const { workflow } = await setup.runner.uplink.request("workflow-sync", { name, data })
  expect(workflow["workflowHash"]).toBe(report["workflowHash"])
  const proposal = await setup.runner.uplink.request("workflow-api", {
    action: "proposal-create",
    payload: {
      workflowId: workflow["id"],
      baseWorkflowHash: report["workflowHash"],
      proposal: { steps: [{ type: "bash", command: "false" }] },
    },
  })
  expect(proposal.data).toMatchObject({
    proposal: { baseWorkflowHash: report["workflowHash"], status: "pending" },
  })
})

test("a definition that is not valid is rejected with the path of the problem", async () => {
  expect(validate({ steps: [{ type: "bash" }] })).rejects.toThrow("steps.0.command")
})

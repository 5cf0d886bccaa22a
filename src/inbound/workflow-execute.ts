/** `workflow-execute`: this runner has no workflow engine yet, and says so in the form of a result. */
import type { Verb } from "./verb.ts"

export const workflowExecute: Verb<"workflow-execute"> = ({ send }, { executionId }) =>
  send({
    type: "workflow-execution-result",
    executionId,
    envelope: {
      ok: false,
      status: "failed",
      executionId,
      error: "this runner cannot run workflows",
    },
  })

/** `workflow-execute`: run, or gone on with; `workflow-execution-result` follows when it has ended or waits for approval. */
import type { Verb } from "./command.ts"

export const workflowExecute: Verb<"workflow-execute"> = ({ workflows }, frame) =>
  workflows.take(frame)

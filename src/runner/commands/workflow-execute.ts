/** `workflow-execute`: run, or gone on with; `workflow-execution-result` follows when it has ended or waits for approval. */
import type { Command } from "./command.ts"

export const workflowExecute: Command<"workflow-execute"> = ({ workflows }, frame) =>
  workflows.take(frame)

/** `workflow-execute`: starts or resumes an execution; its result is sent when it ends or needs approval. */
import type { Command } from "./command.ts"

export const workflowExecute: Command<"workflow-execute"> = ({ workflows }, frame) =>
  workflows.take(frame)

/** Runs a workflow in a child session with its own clone, when the request names a repository, a branch or a commit. */
import type { RequestFrame } from "../../wire/frames/index.ts"
import { Refusal } from "./handler-table.ts"
import { type Children, workspaceOf } from "./children-port.ts"

type Result = Record<string, unknown>

export interface WorkflowInCheckoutOptions {
  readonly children: Pick<Children, "spawn" | "terminate">
  /** The `origin` URL of a session's checkout. */
  readonly origin: (session: string) => Promise<string | undefined>
  readonly answer: (
    session: string,
    frame: RequestFrame,
  ) => Result | undefined | Promise<Result | undefined>
}

/** Undefined when the workflow runs in the session's own checkout. */
export const runWorkflowInCheckout = async (
  { children, origin, answer }: WorkflowInCheckoutOptions,
  session: string,
  frame: RequestFrame,
): Promise<Record<string, unknown> | undefined> => {
  if (frame.type !== "workflow-run") return undefined
  const { repoUrl, branch, ref, requestId, workflowId } = frame
  if (repoUrl === undefined && branch === undefined && ref === undefined) return undefined
  const repository = repoUrl ?? (await origin(session))
  if (repository === undefined)
    throw new Refusal("repoUrl: is required, because the checkout of this session has no origin")
  const child = await children.spawn(session, requestId, {
    task: "",
    workspace: workspaceOf(`run-${requestId}`),
    title: `workflow ${workflowId}`,
    repoUrl: repository,
    branch,
    ref,
  })
  try {
    return await answer(child, frame)
  } catch (error) {
    await children.terminate(session, child, "its workflow could not be started")
    throw error
  }
}

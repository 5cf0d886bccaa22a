/** The operations that save and restore the workspace. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { describeError } from "../../lib/log.ts"
import { ApiError } from "../gateway/api-error.ts"
import type { WorkspaceSync } from "./sync/workspace-sync.ts"

export const workspaceOperations = (
  workspace: Pick<WorkspaceSync, "save" | "restoreAgain"> | undefined,
) => {
  const run = async <Result>(
    work: (sync: NonNullable<typeof workspace>) => Promise<Result>,
    code: string,
  ): Promise<Result> => {
    if (!workspace)
      throw new ApiError(
        404,
        "not-found",
        "this sandbox does not save its workspace: set WORKSPACE_SYNC=1",
      )
    try {
      return await work(workspace)
    } catch (error) {
      throw new ApiError(502, code, describeError(error))
    }
  }
  return {
    "save-workspace": () => run(({ save }) => save(), "not-saved"),
    "restore-workspace": () =>
      run(async ({ restoreAgain }) => ({ files: await restoreAgain() }), "not-restored"),
  } satisfies Partial<SandboxHandlers>
}

/** The operation that saves the workspace. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { describeError } from "../../lib/log.ts"
import { ApiError } from "../gateway/api-error.ts"
import type { WorkspaceSync } from "./sync/workspace-sync.ts"

export const workspaceOperations = (workspace: Pick<WorkspaceSync, "save"> | undefined) =>
  ({
    "save-workspace": async () => {
      if (!workspace)
        throw new ApiError(404, "not-found", "this sandbox does not save its workspace")
      try {
        return await workspace.save()
      } catch (error) {
        throw new ApiError(502, "not-saved", describeError(error))
      }
    },
  }) satisfies Partial<SandboxHandlers>

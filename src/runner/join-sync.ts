/** Joins the copy of the workspace in object storage: URLs from the session agent, files from the server of `/v1`. */
import type { Database } from "bun:sqlite"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { factOf } from "../lib/state-db.ts"
import type { Link } from "./link/link.ts"
import { RequestError } from "./link/pending-requests.ts"
import { createObjectCalls } from "./sandbox/sync/object-calls.ts"
import { createSandboxFiles } from "./sandbox/sync/sandbox-files.ts"
import { createWorkspaceCopy } from "./sandbox/sync/workspace-copy.ts"
import { createWorkspaceSync, type WorkspaceSync } from "./sandbox/sync/workspace-sync.ts"
import type { V1Supervisor } from "./sandbox/v1/supervisor.ts"

const RESTORED_FACT = "workspace.restored"

export interface JoinSyncOptions {
  /** WORKSPACE_SYNC. */
  readonly isOn: boolean
  readonly db: Database
  readonly request: Link["request"]
  readonly v1: Pick<V1Supervisor, "address">
  readonly clock: Clock
  readonly log: Log
}

/** Undefined when it is off. */
export const joinSync = (options: JoinSyncOptions): WorkspaceSync | undefined => {
  const { db, request, v1, clock, log } = options
  if (!options.isOn) return undefined
  return createWorkspaceSync({
    copy: createWorkspaceCopy({
      urls: (fields) => request("workspace-urls", fields),
      objects: createObjectCalls(clock),
      files: createSandboxFiles(v1.address),
      now: clock.now,
      log,
    }),
    memory: factOf(db, RESTORED_FACT),
    isOffline: (error) => error instanceof RequestError && error.failure === "offline",
    clock,
    log,
  })
}

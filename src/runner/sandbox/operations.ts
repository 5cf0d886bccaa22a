/** The operations that the sandbox carries out itself. The map is total: an operation without a handler does not compile. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { envFileOperations } from "./env-file-operations.ts"
import { serviceOperations, type ServiceOperationPorts } from "./service-operations.ts"
import { secretOperations } from "./secret-operations.ts"
import type { Secrets } from "./secrets.ts"
import { setupOperations, type SetupOperationPorts } from "./setup-operations.ts"
import type { WorkspaceSync } from "./sync/workspace-sync.ts"
import { tunnelOperations } from "./tunnel-operations.ts"
import type { Tunnels } from "./tunnels.ts"
import { workspaceOperations } from "./workspace-operations.ts"

export interface SandboxOperationPorts {
  /** `undefined` when the sandbox has no source of secrets. */
  readonly secrets: Secrets | undefined
  readonly tunnels: Tunnels
  /** Whether something listens on a port of the sandbox. */
  readonly isListening: (port: number) => Promise<boolean>
  readonly services: Omit<ServiceOperationPorts, "tunnels"> & SetupOperationPorts
  /** Undefined where the workspace is not saved. */
  readonly workspace: Pick<WorkspaceSync, "save" | "restoreAgain"> | undefined
}

export const createSandboxOperations = ({
  secrets,
  tunnels,
  isListening,
  services,
  workspace,
}: SandboxOperationPorts): SandboxHandlers => ({
  ...secretOperations(secrets),
  ...tunnelOperations(tunnels, isListening),
  ...serviceOperations({ ...services, tunnels }),
  ...envFileOperations(services.envFiles),
  ...setupOperations(services),
  ...workspaceOperations(workspace),
})

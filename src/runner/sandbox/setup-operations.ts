/** The operations of a setup session. In any other session they do not exist. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { ApiError } from "../gateway/api-error.ts"
import type { EnvFiles } from "./env-files/env-files.ts"
import { asApiErrors } from "./secret-operations.ts"
import type { AppServices } from "./services/app-services.ts"

export interface SetupOperationPorts {
  readonly isSetup: boolean
  readonly services: AppServices
  readonly envFiles: EnvFiles
}

export const setupOperations = ({ isSetup, services, envFiles }: SetupOperationPorts) => {
  const onlyInSetup = () => {
    if (isSetup) return
    throw new ApiError(404, "not-found", "this operation exists only in a setup session")
  }
  return {
    "save-service-commands": async ({ services: specs }) => {
      onlyInSetup()
      services.replaceAll(specs.map(({ cwd = ".", port, ...spec }) => ({ ...spec, cwd, port })))
      return { ok: true }
    },
    "save-env-files": async ({ files }) => {
      onlyInSetup()
      await asApiErrors(() => envFiles.apply(files))
      return { ok: true }
    },
  } satisfies Partial<SandboxHandlers>
}

/** The operations on env files. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import type { EnvFiles } from "./env-files/env-files.ts"
import { asApiErrors } from "./secret-operations.ts"

export const envFileOperations = (envFiles: EnvFiles) =>
  ({
    "apply-env-files": async ({ files }) => ({
      written: [...(await asApiErrors(() => envFiles.apply(files)))],
    }),
    "scrub-env-files": async () => ({ removed: [...(await envFiles.scrub())] }),
  }) satisfies Partial<SandboxHandlers>

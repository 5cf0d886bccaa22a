/** A program from source whose first call of a server fails because the server does not listen yet. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { untilTrue } from "./until-true.ts"

export interface RefusedCall {
  /** For the environment of the program. */
  readonly env: Record<string, string>
  /** Resolves when the first call has failed. */
  readonly happened: () => Promise<void>
}

/** `folder`: one that the test removes. */
export const refusedCall = (folder: string): RefusedCall => {
  const file = join(folder, `refused-${crypto.randomUUID()}`)
  const program = join(import.meta.dir, "programs/report-refused.ts")
  return {
    env: { BUN_OPTIONS: `--preload=${program}`, REFUSED_FILE: file },
    happened: () => untilTrue(() => existsSync(file), "refused call"),
  }
}

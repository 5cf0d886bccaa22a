/** An OpenCode that waits before it starts, as on a slow machine. */
import { existsSync } from "node:fs"
import { chmod, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Sandbox } from "./runner.ts"
import { untilTrue } from "./until-true.ts"

export interface HeldOpenCode {
  /** For the variable OPENCODE_BIN. */
  readonly program: string
  /** Resolves when a runner has started it. */
  readonly asked: () => Promise<void>
  /** Lets it start. */
  readonly release: () => Promise<void>
}

export const holdOpenCode = async ({ root, environment }: Sandbox): Promise<HeldOpenCode> => {
  const program = join(root, "held-opencode")
  const asked = join(root, "asked")
  const gate = join(root, "gate")
  const wait = `: > '${asked}'; while [ ! -e '${gate}' ]; do sleep 0.05; done`
  await writeFile(program, `#!/bin/sh\n${wait}\nexec '${environment["OPENCODE_BIN"]}' "$@"\n`)
  await chmod(program, 0o755)
  return {
    program,
    asked: () => untilTrue(() => existsSync(asked), "the start of OpenCode"),
    release: () => writeFile(gate, ""),
  }
}

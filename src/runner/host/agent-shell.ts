/**
 * The shell of the agent's commands: a program that starts the real one and stays until that has ended. OpenCode waits in vain for a command
 * that was ended by a signal (no memory left, no room on the disk) until the time of the command is over; this program reports an exit code.
 */
import { existsSync } from "node:fs"
import { chmod, mkdir } from "node:fs/promises"
import { dirname } from "node:path"
import { replaceFile } from "../../lib/replace-file.ts"
import { agentShellFile } from "../../lib/state-folders.ts"

const REAL = "/bin/bash"
const script = `#!/bin/sh
# Written at every start of the agent; changes are lost.
${REAL} "$@"
exit $?
`

/** Undefined: OpenCode chooses. */
export const agentShellOf = (settings: {
  readonly command: string
  readonly stateDir: string
}): string | undefined =>
  settings.command === "run" && existsSync(REAL) ? agentShellFile(settings.stateDir) : undefined

export const writeAgentShell = async (file: string): Promise<void> => {
  await mkdir(dirname(file), { recursive: true, mode: 0o755 })
  replaceFile(file, script, 0o755)
  // Whatever the umask is.
  await chmod(file, 0o755)
}

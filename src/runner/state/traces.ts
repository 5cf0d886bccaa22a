/**
 * What a session leaves outside the state directory on a disk that is the sandbox's own: the histories of shells, passwords
 * that git and other programs have stored, and the runner's log. On a person's machine these files are the person's.
 */
import { rmSync, truncateSync } from "node:fs"
import { join } from "node:path"

/** Directly in the home directory: a directory in between could be a symbolic link of the agent. */
const IN_A_HOME = [
  ".bash_history",
  ".git-credentials",
  ".history",
  ".lesshst",
  ".mysql_history",
  ".netrc",
  ".node_repl_history",
  ".psql_history",
  ".python_history",
  ".sh_history",
  ".sqlite_history",
  ".viminfo",
  ".zsh_history",
]

/** Written by the start of a sandbox in a cloud, which appends to it. */
const RUNNER_LOG = "/var/log/sandpiper.log"

export const removeTraces = (homes: readonly string[]): void => {
  for (const home of new Set(homes))
    for (const name of IN_A_HOME) rmSync(join(home, name), { force: true, recursive: true })
  try {
    truncateSync(RUNNER_LOG)
  } catch {
    // It does not exist, or the runner of this sandbox may not write to it: then it has not written there.
  }
}

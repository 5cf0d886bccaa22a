/**
 * Configuration of OpenCode that is not the runner's: the project's, the user's, the machine's. OpenCode reads it by
 * itself, and it may name any provider.
 */
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"

const NAMES = ["opencode.json", "opencode.jsonc"]
/** A folder `.opencode` may also be no more than where somebody installed OpenCode. */
const FOLDER = [...NAMES, "plugin", "plugins"].map((name) => join(".opencode", name))
const MACHINE = "/etc/opencode"

export const hasOtherConfig = (workDir: string, home: string | undefined): boolean =>
  [
    ...upFrom(workDir).flatMap((folder) => [...NAMES, ...FOLDER].map((name) => join(folder, name))),
    ...(home === undefined ? [] : FOLDER.map((name) => join(home, name))),
    ...NAMES.map((name) => join(MACHINE, name)),
  ].some((path) => existsSync(path))

/** OpenCode stops at the repository's root; looking further finds at worst too much. */
const upFrom = (folder: string): readonly string[] =>
  dirname(folder) === folder ? [folder] : [folder, ...upFrom(dirname(folder))]

/**
 * Detects OpenCode config that the runner did not write: the project's, the user's or the machine's. OpenCode reads it
 * too, and it may name any provider.
 */
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"

const FILES = ["opencode.json", "opencode.jsonc"]
/** Not `.opencode` itself: the folder may only hold an installation of OpenCode. */
const FOLDER_FILES = [...FILES, "plugin", "plugins"].map((name) => join(".opencode", name))
const MACHINE_FOLDER = "/etc/opencode"

export const hasForeignConfig = (workDir: string, home: string | undefined): boolean =>
  [
    ...withParents(workDir).flatMap((folder) =>
      [...FILES, ...FOLDER_FILES].map((name) => join(folder, name)),
    ),
    ...(home === undefined ? [] : FOLDER_FILES.map((name) => join(home, name))),
    ...FILES.map((name) => join(MACHINE_FOLDER, name)),
  ].some((path) => existsSync(path))

/** OpenCode stops at the repository's root. Searching further at worst gives a false positive. */
const withParents = (folder: string): readonly string[] =>
  dirname(folder) === folder ? [folder] : [folder, ...withParents(dirname(folder))]

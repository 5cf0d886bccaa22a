/**
 * Writes the runner's part of git's configuration. Synchronous: what is decided is in the file before the next frame is
 * handled, and a later call cannot be overtaken by an earlier one.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type GitConfigInput, gitConfigText, gitIgnoreText } from "./git-config.ts"
import { replaceFile } from "../../lib/replace-file.ts"

/** The path of the configuration, which the users' own .gitconfig includes. */
export const writeGitConfigFile = (
  directory: string,
  input: Omit<GitConfigInput, "ignoreFile">,
): string => {
  const file = join(directory, "config")
  const ignoreFile = join(directory, "ignore")
  mkdirSync(directory, { recursive: true, mode: 0o755 })
  writeFileSync(ignoreFile, gitIgnoreText)
  // A git that runs meanwhile reads the former text or this one, never a part of it.
  replaceFile(file, gitConfigText({ ...input, ignoreFile }), 0o644)
  return file
}

/** Runs while the binary is built (a macro): the repository's own configuration files, to be carried inside it. */
import { join } from "node:path"
import { type ConfigFiles, readConfigFiles } from "./config-files.ts"

export const embedConfigFiles = (): ConfigFiles => {
  const repository = join(import.meta.dir, "../../../..")
  return {
    ...readConfigFiles(join(repository, "opencode-config")),
    ...readConfigFiles(repository, ["skills"]),
  }
}

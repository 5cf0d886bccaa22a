/** A build-time macro that embeds the repository's config files in the binary. */
import { join } from "node:path"
import { type ConfigFiles, readConfigFiles } from "./config-files.ts"

export const embedConfigFiles = (): ConfigFiles => {
  const repository = join(import.meta.dir, "../../../..")
  return {
    ...readConfigFiles(join(repository, "opencode-config")),
    ...readConfigFiles(repository, ["skills"]),
  }
}

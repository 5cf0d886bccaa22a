/** The key of the program that new sandboxes run: base snapshots and sandboxes of the pool belong to one key. */
import { statSync } from "node:fs"
import { versionKey } from "../fleet/core/version-key.ts"
import type { ProviderName } from "../fleet/providers/contract.ts"
import { digestOf } from "../lib/digest.ts"
import { commit, version } from "../lib/version.ts"
import type { Settings } from "../settings/settings.ts"

/**
 * Local sandboxes run this program's own file; all others run an image, which is the same for every replica. The name of
 * an image may stay when its content changes, so its build counts, too.
 */
export const runtimeKey = (settings: Settings, provider: ProviderName): string => {
  const file = statSync(process.execPath, { throwIfNoEntry: false })
  const program =
    provider === "local" && file
      ? [{ path: process.execPath, digest: `${file.size} ${file.mtimeMs}` }]
      : []
  const { sandboxImage: image, imageBuildVersion: build = "" } = settings
  return versionKey(program, [version, commit, image, build].join(" "), digestOf)
}

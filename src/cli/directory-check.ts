/** Whether a directory can be used, without creating it. */
import { access, constants, stat } from "node:fs/promises"
import { dirname } from "node:path"

/** The directory itself, or the nearest of its parents that exists. Throws if it cannot be written to. */
export const writableAncestor = async (directory: string): Promise<string> => {
  const found = await stat(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT" || dirname(directory) === directory) throw error
    return undefined
  })
  if (found === undefined) return writableAncestor(dirname(directory))
  if (!found.isDirectory()) throw new Error("ENOTDIR: not a directory")
  await access(directory, constants.W_OK | constants.X_OK)
  return directory
}

/** The files in OpenCode's config directory: tools, their library, plugins, instructions and skills. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"

/** Path below the config directory -> content. */
export type ConfigFiles = Readonly<Record<string, string>>

const FOLDERS = ["tools", "lib", "plugins", "instructions", "agent", "command", "skills"]

/** Reads a folder of the image at run time, and the repository's files when the binary is built. */
export const readConfigFiles = (
  root: string,
  folders: readonly string[] = FOLDERS,
): ConfigFiles => {
  const configFile = existsSync(join(root, "opencode.json")) ? ["opencode.json"] : []
  const paths = [...configFile, ...folders.flatMap((folder) => filesBelow(root, folder))]
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(root, path), "utf8")]))
}

const filesBelow = (root: string, folder: string): readonly string[] => {
  if (!existsSync(join(root, folder))) return []
  return readdirSync(join(root, folder))
    .toSorted()
    .flatMap((name) => {
      const path = join(folder, name)
      return statSync(join(root, path)).isDirectory() ? filesBelow(root, path) : [path]
    })
}

/** Tools that end a session or report to its parent; an orchestrator has no parent and must not end itself. */
const NOT_FOR_ORCHESTRATORS = new Set(["complete_session", "notify_parent"])

const toolName = (path: string): string | undefined => /^tools\/([^/]+)\.[jt]s$/.exec(path)?.[1]

export const filesFor = (files: ConfigFiles, isOrchestrator: boolean): ConfigFiles =>
  Object.fromEntries(
    Object.entries(files).filter(
      ([path]) => !isOrchestrator || !NOT_FOR_ORCHESTRATORS.has(toolName(path) ?? ""),
    ),
  )

/** Code that OpenCode imports when it starts; one file that does not load breaks every prompt. */
export const isImportedByOpenCode = (path: string): boolean =>
  /^(tools|plugins)\/[^/]+\.[jt]s$/.test(path)

export const isTool = (path: string): boolean => toolName(path) !== undefined

/** Code that OpenCode imports, or that such code imports. */
export const isCode = (path: string): boolean =>
  isImportedByOpenCode(path) || path.startsWith("lib/")

/** True if all code equals the bundled files, which the tests of this project load. */
export const isBundled = (files: ConfigFiles, own: ConfigFiles): boolean =>
  Object.entries(files).every(([path, text]) => !isCode(path) || own[path] === text)

/** The base of opencode.json; throws when the image's file is not a JSON object. */
export const baseConfig = (files: ConfigFiles): Readonly<Record<string, unknown>> =>
  z.record(z.string(), z.unknown()).parse(JSON.parse(files["opencode.json"] ?? "{}"))

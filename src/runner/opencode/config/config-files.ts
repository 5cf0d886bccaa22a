/** The files that OpenCode gets beside its settings: tools, their library, plugins, instructions and skills. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"

/** Path below the configuration directory -> text. */
export type ConfigFiles = Readonly<Record<string, string>>

const FOLDERS = ["tools", "lib", "plugins", "instructions", "agent", "command", "skills"]

/** Runs in the runner for a folder of the image, and while the binary is built for the files that it carries. */
export const readConfigFiles = (
  root: string,
  folders: readonly string[] = FOLDERS,
): ConfigFiles => {
  const settings = existsSync(join(root, "opencode.json")) ? ["opencode.json"] : []
  const paths = [...settings, ...folders.flatMap((folder) => filesBelow(root, folder))]
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

/** Tools that end or report to a parent: an orchestrator has none, and calling one would end the wrong session. */
const NOT_FOR_ORCHESTRATORS = new Set(["complete_session", "notify_parent"])

const toolName = (path: string): string | undefined => /^tools\/([^/]+)\.[jt]s$/.exec(path)?.[1]

export const filesFor = (files: ConfigFiles, isOrchestrator: boolean): ConfigFiles =>
  Object.fromEntries(
    Object.entries(files).filter(
      ([path]) => !isOrchestrator || !NOT_FOR_ORCHESTRATORS.has(toolName(path) ?? ""),
    ),
  )

/** Code that OpenCode imports at its start; one that does not load breaks every prompt. */
export const isLoaded = (path: string): boolean => /^(tools|plugins)\/[^/]+\.[jt]s$/.test(path)

export const isTool = (path: string): boolean => toolName(path) !== undefined

/** Code that is imported, or that such code imports. */
export const isCode = (path: string): boolean => isLoaded(path) || path.startsWith("lib/")

/** All code is what the program carries, which its tests have loaded. */
export const isCarried = (files: ConfigFiles, own: ConfigFiles): boolean =>
  Object.entries(files).every(([path, text]) => !isCode(path) || own[path] === text)

/** The base of the settings; a file of the image that is no JSON object stops the start with its name. */
export const baseSettings = (files: ConfigFiles): Readonly<Record<string, unknown>> =>
  z.record(z.string(), z.unknown()).parse(JSON.parse(files["opencode.json"] ?? "{}"))

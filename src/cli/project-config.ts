/** The project's own OpenCode config, as far as it decides which model replies. */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { z } from "zod"

export interface ProjectModels {
  readonly file: string
  readonly model: string | undefined
  /** Providers that the project defines or configures. */
  readonly providers: readonly string[]
}

const FILES = ["opencode.json", "opencode.jsonc"].flatMap((name) => [name, join(".opencode", name)])

const config = z.object({
  model: z.string().optional(),
  provider: z.record(z.string(), z.unknown()).optional(),
})

/** The nearest file that names a model or a provider, from the working directory up to the repository's root. */
export const projectModels = (workDir: string): ProjectModels | undefined =>
  foldersOf(workDir)
    .flatMap((folder) => FILES.map((name) => join(folder, name)))
    .map(readProject)
    .find((found) => found !== undefined)

const foldersOf = (folder: string): readonly string[] =>
  existsSync(join(folder, ".git")) || dirname(folder) === folder
    ? [folder]
    : [folder, ...foldersOf(dirname(folder))]

const readProject = (file: string): ProjectModels | undefined => {
  if (!existsSync(file)) return undefined
  const parsed = config.safeParse(parse(readFileSync(file, "utf8")))
  if (!parsed.success) return undefined
  const { model, provider = {} } = parsed.data
  const providers = Object.keys(provider)
  return model === undefined && providers.length === 0 ? undefined : { file, model, providers }
}

/** A file that is not JSON with comments is OpenCode's to report. */
const parse = (text: string): unknown => {
  try {
    return Bun.JSONC.parse(text)
  } catch {
    return undefined
  }
}

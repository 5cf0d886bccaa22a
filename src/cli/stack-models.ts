/** The models of `sandpiper up`: what was found, the settings that follow, and the lines of the greeting about it. */
import { readFileSync } from "node:fs"
import type { Endpoint } from "../runner/opencode/config/endpoints.ts"
import type { Settings } from "../settings/settings.ts"
import { defaultToolSet, findModels } from "./find-models.ts"
import { describeModel, describeTools } from "./model-line.ts"
import { projectModels } from "./project-config.ts"

export interface StackModels {
  /** With the model's full name and the set of tools; its environment tells child sessions the same. */
  readonly settings: Settings
  readonly endpoints: readonly Endpoint[]
  /** Sentences about endpoints that cannot be used, while others can. */
  readonly problems: readonly string[]
  readonly needsDemo: boolean
  /** The greeting's lines about the model that replies, and the tools. */
  readonly describe: (model: string | undefined, hubProviders: readonly string[]) => string
}

/** Throws a text that says what to check if endpoints are set and none of them can be used. */
export const modelsOfStack = async (given: Settings): Promise<StackModels> => {
  const { working, problems, model } = await findModels(given)
  if (problems.length > 0 && working.length === 0) throw new Error(problems.join("\n"))
  const project = projectModels(given.workDir)
  const toolSet = given.toolSet ?? defaultToolSet(working)
  const needsDemo = working.length === 0 && (project?.providers.length ?? 0) === 0
  const environment = {
    ...given.environment,
    SANDPIPER_TOOLS: toolSet,
    ...(model !== undefined && { SANDPIPER_MODEL: model }),
    ...(given.baseUrl !== undefined && { OPENAI_BASE_URL: given.baseUrl }),
  }
  return {
    settings: { ...given, model, toolSet, environment },
    endpoints: working,
    problems,
    needsDemo,
    describe: (answering, hubProviders) =>
      [
        describeModel({
          model: answering,
          isChosen: model !== undefined,
          isDemo: needsDemo,
          endpoints: working,
          hubProviders,
          project,
          fileOf: (variable) => secretsFileWith(variable, given.runnerSecretsFile),
        }),
        describeTools(toolSet),
      ].join("\n"),
  }
}

const secretsFileWith = (variable: string, file: string | undefined): string | undefined => {
  if (file === undefined) return undefined
  const isThere = readFileSync(file, "utf8")
    .split("\n")
    .some((line) => line.startsWith(`${variable}=`))
  return isThere ? file : undefined
}

/** Every repository of the session prepared, one after the other; what cannot be had is told and leaves the rest alone. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { describeError } from "../../lib/log.ts"
import { type PrepareOptions, prepareRepository } from "./clone-repository.ts"
import { repositoryName, withoutCredentials } from "../../lib/git-url.ts"
import type { Repository } from "./repository-rules.ts"

interface Prepared {
  readonly repository: Repository
  readonly directory: string
}

/** Where the agent is to work: in the first repository, or in the workspace itself when there is none. */
export const plannedDirectory = (workDir: string, [first]: readonly Repository[]): string =>
  first === undefined ? workDir : directoryOf(workDir, first)

const directoryOf = (workDir: string, { name, url }: Repository): string =>
  join(workDir, name ?? repositoryName(url))

export const prepareAll = async (
  repositories: readonly Repository[],
  options: PrepareOptions,
): Promise<{ readonly found: readonly Prepared[]; readonly problems: readonly string[] }> => {
  const found: Prepared[] = []
  const problems: string[] = []
  for (const repository of repositories) {
    const url = withoutCredentials(repository.url)
    const directory = directoryOf(options.workDir, repository)
    try {
      const { cloned } = await prepareRepository(repository, options)
      options.log.info(cloned ? "git.cloned" : "git.kept", { url, directory })
      found.push({ repository, directory })
    } catch (error) {
      const problem = `${url}: ${describeError(error)}`
      options.log.warn("git.not-prepared", { url, directory, error: describeError(error) })
      problems.push(problem)
      // An older clone whose remote is out of reach is still the place to work in.
      if (existsSync(join(directory, ".git"))) found.push({ repository, directory })
    }
  }
  return { found, problems }
}

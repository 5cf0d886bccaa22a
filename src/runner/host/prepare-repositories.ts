/** Prepares all repositories of the session one after the other; a failure is reported and does not affect the others. */
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

/** The agent's working directory: the first repository, or the workspace if there is none. */
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
      // The agent can work in an older clone even if its remote is unreachable.
      if (existsSync(join(directory, ".git"))) found.push({ repository, directory })
    }
  }
  return { found, problems }
}

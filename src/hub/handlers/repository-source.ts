/** The repository that a child session works in, as its parent's agent names it. */
import { GIT_NAME_RULE, GIT_URL_RULE, isGitName, isGitUrl } from "../../lib/git-url.ts"
import { Refusal } from "./handler-table.ts"

export interface Source {
  readonly repoUrl?: string | undefined
  readonly branch?: string | undefined
  readonly ref?: string | undefined
}

/** Throws a Refusal. The agent names the repository: a path of the machine that clones it is not one. */
export const checkSource = ({ repoUrl, branch, ref }: Source): void => {
  if (repoUrl !== undefined && (!isGitUrl(repoUrl) || /^file:/i.test(repoUrl)))
    throw new Refusal(`repoUrl: ${GIT_URL_RULE}`)
  for (const [field, name] of Object.entries({ ref, branch })) {
    if (name !== undefined && !isGitName(name)) throw new Refusal(`${field}: ${GIT_NAME_RULE}`)
  }
}

/**
 * The token and the author that git uses: those of the session agent's last `git-credentials` frame, else those of the
 * settings. The frame's are in memory only, so the session agent sends them again after every connection.
 */
import type { Log } from "../../lib/log.ts"
import type { Settings } from "../../settings/settings.ts"
import type { GitCredentials } from "../../wire/frames/index.ts"
import { type Credential, credentialsOf } from "./repository-rules.ts"

export interface GitAccount {
  readonly credentials: () => readonly Credential[]
  readonly author: () => Pick<GitCredentials, "userName" | "userEmail">
  readonly set: (given: GitCredentials) => void
}

export interface GitAccountOptions {
  /** The author of the settings. */
  readonly config: Pick<Settings, "gitUserName" | "gitUserEmail">
  /** The current repositories and token: a restored sandbox may have new ones. */
  readonly current: () => Pick<Settings, "repositories" | "githubToken">
  readonly log: Pick<Log, "hide">
}

export const createGitAccount = ({ config, current, log }: GitAccountOptions): GitAccount => {
  let given: GitCredentials = {}
  return {
    credentials: () => {
      const { repositories, githubToken } = current()
      return credentialsOf(repositories, given.token ?? githubToken)
    },
    author: () => ({
      userName: given.userName ?? config.gitUserName,
      userEmail: given.userEmail ?? config.gitUserEmail,
    }),
    set: (next) => {
      if (next.token !== undefined) log.hide([next.token])
      given = next
    },
  }
}

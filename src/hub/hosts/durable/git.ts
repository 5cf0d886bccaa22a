/** The git host of an owner in a deployment of Durable Objects. A session's checkout is in its sandbox: the runner names it. */
import { LOCAL_OWNER, type Owner } from "../../access/ownership.ts"
import { type CallGitHost, githubApi } from "../../handlers/git-api.ts"
import { createGitHost, type GitHost, type GitHostOptions } from "../../handlers/git-host.ts"
import { githubAppOf } from "../../handlers/github-app.ts"
import { gitTokenOf, NO_TOKEN_OF_OWNER } from "../../handlers/git-tokens.ts"
import { Refusal } from "../../handlers/handler-table.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

const NO_GIT = "no git host is configured: set the worker's secret GITHUB_TOKEN"

export const durableGit = (
  environment: DurableEnvironment,
  owner: Owner,
  showPull: GitHostOptions["showPull"],
): GitHost =>
  createGitHost({
    showPull,
    call: callOf(environment, owner),
    origin: async () => undefined,
    issueToken: githubAppOf(environment, owner, Date.now),
  })

const callOf = (environment: DurableEnvironment, owner: Owner): CallGitHost => {
  const token = gitTokenOf(environment, owner)
  if (token !== undefined)
    return githubApi(environment.GITHUB_API_URL || "https://api.github.com", token)
  const reason = owner === LOCAL_OWNER ? NO_GIT : NO_TOKEN_OF_OWNER
  return () => Promise.reject(new Refusal(reason))
}

/**
 * The variables of the deployment that the sandboxes of an owner get. The keys of model providers are for all owners; the
 * accounts of the operator (git host, password manager) are for the operator's own sessions only.
 */
import type { EnvironmentOf } from "../fleet/sandbox-spec.ts"
import { LOCAL_OWNER, parseOwner } from "../hub/access/ownership.ts"
import { gitTokenOf } from "../hub/handlers/git-tokens.ts"
import { configureObjectStorage } from "../hub/object-storage.ts"
import { childEnvironment } from "../hub/hosts/bun/child-environment.ts"

const CREDENTIALS = /^(?:OP_SERVICE_ACCOUNT_TOKEN|SANDPIPER_SECRETS_FILE)$/
const OF_GIT = /^(?:GITHUB_TOKEN|GIT_USER_NAME|GIT_USER_EMAIL|GIT_AUTHOR_.*|GIT_COMMITTER_.*)$/

/** The hub of this deployment has object storage, or is elsewhere and has it. */
const savesWorkspaces = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  environment["WORKSPACE_SYNC"] === "1" ||
  configureObjectStorage(environment, Date.now) !== undefined

export const sandboxEnvironment =
  (environment: Readonly<Record<string, string | undefined>>): EnvironmentOf =>
  (tenant) => {
    const all = Object.entries(childEnvironment(environment))
    const only = (isWanted: (name: string) => boolean) =>
      Object.fromEntries(all.filter(([name]) => isWanted(name)))
    const isOperators = tenant === LOCAL_OWNER
    const owner = parseOwner(tenant)
    const token = owner && gitTokenOf(environment, owner)
    const services = environment["SANDPIPER_SERVICES"]
    return {
      providerKeys: {
        ...only((name) => !CREDENTIALS.test(name) && !OF_GIT.test(name)),
        ...(savesWorkspaces(environment) && { WORKSPACE_SYNC: "1" }),
        ...(services !== undefined && services !== "" && { SANDPIPER_SERVICES: services }),
      },
      credentials: isOperators ? only((name) => CREDENTIALS.test(name)) : {},
      github: {
        ...(isOperators && only((name) => OF_GIT.test(name))),
        ...(token !== undefined && { GITHUB_TOKEN: token }),
      },
    }
  }

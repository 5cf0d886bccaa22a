/**
 * The variables of the deployment that the sandboxes of an owner get. The keys of model providers are for all owners; the
 * accounts of the operator (git host, password manager) are for the operator's own sessions only.
 */
import type { EnvironmentOf } from "../fleet/sandbox-spec.ts"
import { LOCAL_OWNER, parseOwner } from "../hub/access/ownership.ts"
import { gitTokenOf } from "../hub/handlers/git-tokens.ts"
import { configureObjectStorage } from "../hub/object-storage.ts"
import { isOfOneSandbox, mayReach, passesUnknown, select } from "../settings/reaches.ts"

/** The settings of one runner that were given to `serve`, where nobody reads them. */
export const namesWithoutEffect = (
  environment: Readonly<Record<string, string | undefined>>,
): readonly string[] =>
  Object.keys(environment).filter((name) => environment[name] && isOfOneSandbox(name))

/** The hub of this deployment has object storage, or is elsewhere and has it. */
const savesWorkspaces = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  environment["WORKSPACE_SYNC"] === "1" ||
  configureObjectStorage(environment, Date.now) !== undefined

export const sandboxEnvironment =
  (environment: Readonly<Record<string, string | undefined>>): EnvironmentOf =>
  (tenant) => {
    const given = select(environment, (name) => environment[name] !== "")
    const owner = parseOwner(tenant)
    const token = owner && gitTokenOf(environment, owner)
    const ofOperator =
      tenant === LOCAL_OWNER ? select(given, (name) => mayReach("operator", name)) : {}
    const isOfGit = (name: string) => name.startsWith("GIT")
    const isUnknown = passesUnknown(environment)
    return {
      providerKeys: {
        ...select(given, (name) => mayReach("sandbox", name) || isUnknown(name)),
        ...(savesWorkspaces(environment) && { WORKSPACE_SYNC: "1" }),
      },
      credentials: select(ofOperator, (name) => !isOfGit(name)),
      github: {
        ...select(ofOperator, isOfGit),
        ...(token !== undefined && { GITHUB_TOKEN: token }),
      },
    }
  }

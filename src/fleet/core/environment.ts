/** The environment of a sandbox. The fleet's own variables come last, so that they cannot be replaced by a caller. */

type Variables = Readonly<Record<string, string>>

export interface EnvironmentSources {
  /** Settings of the deployment, and keys of model providers: the tenant's own, or the deployment's. */
  readonly providerKeys: Variables
  readonly credentials: Variables
  readonly github: Variables
  /** Variables that the caller of the fleet gave. */
  readonly caller: Variables
  /** The link, the session, the gateway's key: set by the fleet. */
  readonly core: Variables
}

const NAME = /^[A-Z_][A-Z0-9_]*$/i

/** Why a caller may not set these variables; undefined if it may. `isReserved`: the runner's own variables. */
export const refuseVariables = (
  caller: Variables,
  isReserved: (name: string) => boolean,
): string | undefined => {
  const names = Object.keys(caller)
  const malformed = names.filter((name) => !NAME.test(name))
  if (malformed.length > 0)
    return `these are not names of environment variables: ${malformed.join(", ")}`
  const own = names.filter(isReserved)
  if (own.length === 0) return undefined
  return `these variables are set by the fleet or the image: ${own.join(", ")}`
}

const APPROVALS = "APPROVE_ACTIONS"

/** A caller can add actions that wait for a person's yes, and take none away. */
const approvalsOf = ({ providerKeys, caller }: EnvironmentSources): Variables => {
  const lists = [providerKeys[APPROVALS], caller[APPROVALS]].filter((list) => list)
  return lists.length === 0 ? {} : { [APPROVALS]: lists.join(",") }
}

export const assembleEnvironment = (sources: EnvironmentSources): Record<string, string> => ({
  ...sources.providerKeys,
  ...sources.credentials,
  ...sources.github,
  ...sources.caller,
  ...approvalsOf(sources),
  ...sources.core,
})

/** What a session asks of its sandbox, as variables of its runner. */
export const variablesOf = (
  parent: string | undefined,
  wish:
    | {
        readonly repoUrl?: string | undefined
        readonly branch?: string | undefined
        readonly ref?: string | undefined
        readonly model?: string | undefined
      }
    | undefined,
): Record<string, string> => ({
  ...(parent !== undefined && { PARENT_SESSION_ID: parent }),
  ...(wish?.repoUrl !== undefined && { REPO_URL: wish.repoUrl }),
  ...(wish?.branch !== undefined && { REPO_BRANCH: wish.branch, REPO_BRANCH_CREATE: "1" }),
  ...(wish?.ref !== undefined && { REPO_REF: wish.ref }),
  ...(wish?.model !== undefined && { SANDPIPER_MODEL: wish.model }),
})

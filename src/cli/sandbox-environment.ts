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

/** Settings of the runner that mean the same in every sandbox. The runner of a child session of `up` does not get them. */
const OF_EVERY_SANDBOX = ["SANDPIPER_SERVICES", "SNAPSHOT_HAS_DEPS", "ALLOW_SHARED_ORIGIN"]

/** Settings of one runner: the fleet sets them, or the session has its own. */
const OF_ONE_SANDBOX = [
  "DO_WS_URL",
  "RUNNER_TOKEN",
  "SESSION_ID",
  "PARENT_SESSION_ID",
  "JWT_SECRET",
  "GATEWAY_PORT",
  "GATEWAY_HOST",
  "SANDPIPER_PUBLIC_URL",
  "VSCODE_PORT",
  "VNC_PORT",
  "TTYD_PORT",
  "VNC_RAW_PORT",
  "REPO_URL",
  "REPO_BRANCH",
  "REPO_BRANCH_CREATE",
  "REPO_REF",
  "REPO_DEPTH",
  "REPOS_JSON",
  "PERSONA_FILES_JSON",
  "OPENCODE_URL",
  "OPENCODE_SERVER_PASSWORD",
  "SANDBOX_EGRESS_BOUNDARY",
  "SANDBOX_CLOSED_PORTS",
  "IS_ORCHESTRATOR",
  "SESSION_KIND",
  "STOP_WITH_STDIN",
]

/** The settings of one runner that were given to `serve`, where nobody reads them. */
export const namesWithoutEffect = (
  environment: Readonly<Record<string, string | undefined>>,
): readonly string[] => OF_ONE_SANDBOX.filter((name) => environment[name])

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
    return {
      providerKeys: {
        ...only((name) => !CREDENTIALS.test(name) && !OF_GIT.test(name)),
        ...(savesWorkspaces(environment) && { WORKSPACE_SYNC: "1" }),
        ...Object.fromEntries(
          OF_EVERY_SANDBOX.flatMap((name) => {
            const value = environment[name]
            return value ? [[name, value]] : []
          }),
        ),
      },
      credentials: isOperators ? only((name) => CREDENTIALS.test(name)) : {},
      github: {
        ...(isOperators && only((name) => OF_GIT.test(name))),
        ...(token !== undefined && { GITHUB_TOKEN: token }),
      },
    }
  }

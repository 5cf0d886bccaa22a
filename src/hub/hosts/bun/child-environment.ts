/**
 * The environment of a child session's runner: an allow-list. What belongs to the parent's runner (its services, ports,
 * repository, display, tokens) is not on it. Pure.
 */
import { machineVariables } from "../../../lib/machine-variables.ts"

const PASSED_ON = new Set([
  ...machineVariables,
  // The agent, which is the same program for parent and child.
  "OPENCODE_BIN",
  "OPENCODE_CONFIG_SOURCE",
  "AGENT_USER",
  "AGENT_ENV_ALLOW",
  "AGENT_MODELS",
  "AGENT_BASH_SECONDS",
  "SANDPIPER_MODEL",
  "SANDPIPER_TOOLS",
  "SANDPIPER_LOCAL_MODELS",
  "OPENAI_BASE_URL",
  "OPENAI_API_BASE",
  "ANTHROPIC_BASE_URL",
  "OLLAMA_HOST",
  "SANDPIPER_PERMISSIONS",
  "TURN_FIRST_EVENT_SECONDS",
  "TURN_PROGRESS_SECONDS",
  "TURN_LIMIT_SECONDS",
  "WHISPER_MODELS",
  "CONFIG_WAIT_SECONDS",
  "CONFIG_DRAIN_SECONDS",
  "GIT_PULL_ON_RESTORE",
  "GIT_PULL_EVERY_SECONDS",
  "LOG_LEVEL",
  "LOG_FORMAT",
  // The user's accounts.
  "GITHUB_TOKEN",
  "GIT_TOKENS",
  "GIT_USER_NAME",
  "GIT_USER_EMAIL",
  "OP_SERVICE_ACCOUNT_TOKEN",
  "SANDPIPER_SECRETS_FILE",
  "PARALLEL_API_URL",
  // A child must not reach more than its parent, and do nothing that its parent needs a person's yes for.
  "SANDBOX_EGRESS",
  "SANDBOX_EGRESS_HOSTS",
  "APPROVE_ACTIONS",
])

/** Keys of model providers: OpenCode reads them under these names. */
const PROVIDER_KEY =
  /^(?:[A-Z][A-Z0-9_]*_API_(?:KEY|TOKEN)|AWS_[A-Z0-9_]+|AZURE_[A-Z0-9_]+|GOOGLE_[A-Z0-9_]+)$/

const OF_GIT_OR_LOCALE = /^(?:LC|GIT_AUTHOR|GIT_COMMITTER)_/

type Environment = Readonly<Record<string, string | undefined>>

export const childEnvironment = (environment: Environment): Record<string, string> => {
  const allowed = new Set(
    (environment["AGENT_ENV_ALLOW"] ?? "").split(",").map((one) => one.trim()),
  )
  const passes = (name: string) =>
    PASSED_ON.has(name) ||
    (!OF_THE_PARENT.test(name) &&
      (allowed.has(name) || PROVIDER_KEY.test(name) || OF_GIT_OR_LOCALE.test(name)))
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && passes(name) ? [[name, value]] : [],
    ),
  )
}

/** Not passed on, even if AGENT_ENV_ALLOW names it. */
const OF_THE_PARENT =
  /^(?:HUB_[A-Z_]+|(?:MODAL|E2B|DAYTONA)_[A-Z0-9_]+|RUNNER_TOKEN|RUNNER_SECRETS_FILE|JWT_SECRET|DO_WS_URL|SESSION_ID|PARENT_SESSION_ID|IS_ORCHESTRATOR|OPENCODE_SERVER_PASSWORD|WORK_DIR|DISPLAY|XAUTHORITY|SANDPIPER_[A-Z_]+|REPO_[A-Z]+|REPOS_JSON|PERSONA_FILES_JSON|[A-Z_]+_PORT)$/

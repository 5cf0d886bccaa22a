/** Selects the environment variables that the agent, its tools and its shells receive: an allow list. Pure. */
import { machineVariables } from "../../../lib/machine-variables.ts"

type Environment = Readonly<Record<string, string | undefined>>

const PASSED_ON = new Set([
  ...machineVariables,
  "COLORTERM",
  "DISPLAY",
  "XAUTHORITY",
  "WAYLAND_DISPLAY",
  // The image's browser: without these agent-browser searches for another one.
  "AGENT_BROWSER_PROFILE",
])
const PASSED_ON_PREFIXES = ["LC_", "GIT_AUTHOR_", "GIT_COMMITTER_"]

export interface EnvironmentInput {
  readonly environment: Environment
  /** Further names, from AGENT_ENV_ALLOW. */
  readonly allow: readonly string[]
  /** The runner's own variables: never passed on, even if `allow` names them. */
  readonly own: ReadonlySet<string>
}

export const agentEnvironment = ({
  environment,
  allow,
  own,
}: EnvironmentInput): Record<string, string> => {
  const passes = (name: string) =>
    !own.has(name) &&
    (PASSED_ON.has(name) ||
      allow.includes(name) ||
      PASSED_ON_PREFIXES.some((prefix) => name.startsWith(prefix)))
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && passes(name) ? [[name, value]] : [],
    ),
  )
}

/** The runner's own servers are on loopback: no proxy of the machine may get what the agent sends there. */
export const withLoopbackDirect = (environment: Environment): Record<string, string> => {
  const hasProxy = Object.keys(environment).some((name) => /^(https?|all)_proxy$/i.test(name))
  const listed = environment["NO_PROXY"] ?? environment["no_proxy"]
  const list = [...(listed ? [listed] : []), "127.0.0.1", "localhost"].join(",")
  return hasProxy ? { NO_PROXY: list, no_proxy: list } : {}
}

/** Keeps OpenCode's start from waiting for a network that may not exist. */
export const offline = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
} as const

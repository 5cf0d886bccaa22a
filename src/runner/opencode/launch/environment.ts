/** The variables that the agent, its tools and its shells may see: a list of what passes, everything else stays here. Pure. */

type Environment = Readonly<Record<string, string | undefined>>

const PASSED_ON = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TERM",
  "COLORTERM",
  "TMPDIR",
  "TZ",
  "LANG",
  "LANGUAGE",
  "DISPLAY",
  "XAUTHORITY",
  "WAYLAND_DISPLAY",
  // Where the image has its browser: without these agent-browser looks for one of its own.
  "AGENT_BROWSER_EXECUTABLE_PATH",
  "AGENT_BROWSER_PROFILE",
  "AGENT_BROWSER_ARGS",
  "PLAYWRIGHT_BROWSERS_PATH",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "all_proxy",
  "no_proxy",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
])
const PASSED_ON_PREFIXES = ["LC_", "GIT_AUTHOR_", "GIT_COMMITTER_"]

export interface EnvironmentInput {
  readonly environment: Environment
  /** Names that this sandbox's operator lets through as well. */
  readonly allow: readonly string[]
  /** The runner's own variables: they never pass, whoever allows them. */
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

/** Nothing that the agent starts with may wait for a network that is not there. */
export const offline = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
} as const

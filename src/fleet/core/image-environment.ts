/** The environment of a sandbox that has an image of its own: without what describes the machine of the fleet. */

/** Their values are paths, users or programs of the fleet's machine. The image has its own. */
const OF_THE_MACHINE: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TERM",
  "TMPDIR",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "PLAYWRIGHT_BROWSERS_PATH",
  "AGENT_BROWSER_EXECUTABLE_PATH",
  "AGENT_BROWSER_ARGS",
  "AGENT_USER",
  "OPENCODE_BIN",
  "OPENCODE_CONFIG_SOURCE",
  "SANDPIPER_SECRETS_FILE",
  "WHISPER_MODELS",
])

export const imageEnvironment = (
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !OF_THE_MACHINE.has(name)))

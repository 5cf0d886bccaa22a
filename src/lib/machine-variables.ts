/** Environment variables that describe the machine and hold nothing of the runner: every child process may get them. */

/** Their values are paths, users or programs of this machine; another machine has its own. */
export const variablesOfThisMachine: readonly string[] = [
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
]

export const machineVariables: readonly string[] = [
  ...variablesOfThisMachine,
  "TZ",
  "LANG",
  "LANGUAGE",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "all_proxy",
  "no_proxy",
]

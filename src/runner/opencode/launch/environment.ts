/** Variables that the runner adds to the environment of OpenCode. Pure. */

type Environment = Readonly<Record<string, string | undefined>>

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

/**
 * Keeps pages that the agent serves apart from the editor, the screen and the terminal: they get a host of their own or
 * an opaque origin, so that they cannot use the person's cookie. Pure.
 */

/** Without `allow-same-origin`: the page may run scripts, but its origin equals no other, not even that of its own files. */
export const ISOLATION =
  "sandbox allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups allow-scripts"

/** Addresses below which the agent decides what is served: path tunnels, and the ports that code-server forwards. */
export const isAgentContent = (prefix: string, path: string): boolean =>
  prefix.startsWith("/t/") ||
  path.startsWith("/vscode/proxy/") ||
  path.startsWith("/vscode/absproxy/")

const LOCAL_HOST =
  /^(?:localhost|(?:[a-z0-9_-]+\.)+localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?$/i

/** A name below a local name, as the page of `serve` gives to sandboxes of its machine. */
const NAMED_LOCALLY = /^[a-z0-9-]+(?:\.[a-z0-9-]+)+\.localhost(?::\d{1,5})?$/i

/**
 * The origin of a tunnel for a client that has used `host`. Names below `localhost` lead to the client's own machine:
 * they are used only by a client that is there already, with the port that it has used.
 */
export const originOfTunnel = (
  pattern: string | undefined,
  name: string,
  host: string,
): string | undefined => {
  if (!pattern)
    return NAMED_LOCALLY.test(host) ? `http://${name.toLowerCase()}--${host}` : undefined
  const origin = pattern.replace("*", name.toLowerCase())
  if (!/\.localhost$/i.test(origin)) return origin
  const local = LOCAL_HOST.exec(host)
  if (local === null) return undefined
  return local[1] === undefined ? origin : `${origin}:${local[1]}`
}

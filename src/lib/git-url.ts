/** Rules for repository addresses and git names, shared by the settings, the runner and the hub. */

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host)

export const GIT_URL_RULE =
  "must be an https:// or ssh:// address of a repository, or user@host:path (http:// only to this machine)"

/** Accepts only transports that fetch: git runs the command in an `ext::` address. */
export const isGitUrl = (text: string): boolean =>
  /^[\w.-]+@[\w.-]+:[^-\s]\S*$/.test(text) ||
  (URL.canParse(text) && isGitTransport(new URL(text)) && !/\s/.test(text))

const isGitTransport = ({ protocol, hostname }: URL): boolean =>
  ["https:", "ssh:", "file:"].includes(protocol) || (protocol === "http:" && isLoopback(hostname))

export const GIT_NAME_RULE = "must be a branch, a tag or a commit"

/** Rejects a leading dash, which git would read as an option, and the characters that git does not allow. */
export const isGitName = (text: string): boolean =>
  /^(?!-)(?!.*\.\.)[^\s~^:?*[\\\p{Cc}]{1,255}$/u.test(text)

/** The address without user and password, fit to be shown and stored. */
export const withoutCredentials = (url: string): string => {
  if (webOrigin(url) === undefined) return url
  const parsed = new URL(url)
  parsed.username = ""
  parsed.password = ""
  return parsed.href
}

/** The origin of an http(s) address; undefined for the other transports, which take no token. */
export const webOrigin = (url: string): string | undefined => {
  if (!URL.canParse(url)) return undefined
  const { protocol, origin } = new URL(url)
  return protocol === "https:" || protocol === "http:" ? origin : undefined
}

/** A text that may contain addresses, with `replacement` in place of each `user:password@`. */
export const hideCredentials = (text: string, replacement = ""): string =>
  text.replaceAll(/(:\/\/)[^\s/@]+@/g, `$1${replacement}`)

/** `owner/name` of a repository on a git host, from an HTTPS or SSH address. */
export const ownerAndName = (address: string): string | undefined =>
  /[/:]([A-Za-z0-9._-]+\/[A-Za-z0-9._-]+?)(?:\.git)?\/?$/.exec(address.trim())?.[1]

/** The last segment of the address, as a directory name. */
export const repositoryName = (url: string): string => {
  const last =
    url
      .replace(/[?#].*$/, "")
      .replace(/\/+$/, "")
      .split(/[/:]/)
      .at(-1) ?? ""
  const name = last
    .replace(/\.git$/, "")
    .replaceAll(/[^\w.-]+/g, "-")
    .replace(/^[-.]+/, "")
  return name === "" ? "repository" : name
}

/** What a repository is called, where it may come from, and who may be told its token. Pure rules over text. */

export interface Repository {
  readonly url: string
  readonly branch?: string | undefined
  readonly ref?: string | undefined
  readonly depth?: number | undefined
  /** Below the workspace; made from the address when not given. */
  readonly name?: string | undefined
  /** For this repository's host only. */
  readonly token?: string | undefined
}

export interface Credential {
  /** `https://host` or, on this machine only, `http://127.0.0.1:port`. */
  readonly origin: string
  readonly username: string
  readonly password: string
}

/** The address as it may be shown and stored: who it is for travels by the credential helper, never in a file. */
export const withoutCredentials = (url: string): string => {
  if (!URL.canParse(url)) return url
  const parsed = new URL(url)
  if (!isWeb(parsed)) return url
  parsed.username = ""
  parsed.password = ""
  return parsed.href
}

/** The last word of the address, fit for a directory. */
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

const originOf = (url: string): string | undefined => {
  if (!URL.canParse(url)) return undefined
  const parsed = new URL(url)
  return isWeb(parsed) ? parsed.origin : undefined
}

/** git's user name when a token is the password; GitHub and GitLab both take it. */
const TOKEN_USER = "oauth2"
const GITHUB = "https://github.com"

/**
 * Which origin is told which token: a repository's own, then one written into its address, then the sandbox's
 * token for the first repository's origin, and for GitHub when there is no repository.
 */
export const credentialsOf = (
  repositories: readonly Repository[],
  token: string | undefined,
): readonly Credential[] => {
  const found = new Map<string, Credential>()
  const add = (origin: string | undefined, username: string, password: string | undefined) => {
    if (origin === undefined || !password || found.has(origin)) return
    found.set(origin, { origin, username, password })
  }
  for (const { url, token: own } of repositories) {
    const origin = originOf(url)
    add(origin, TOKEN_USER, own)
    if (origin === undefined) continue
    const { username, password } = new URL(url)
    add(origin, decodeURIComponent(username) || TOKEN_USER, decodeURIComponent(password))
  }
  const [first] = repositories
  add(first === undefined ? GITHUB : originOf(first.url), TOKEN_USER, token)
  return [...found.values()]
}

/** git asks with a protocol and a host; anything but an exact match gets nothing. */
export const credentialFor = (
  credentials: readonly Credential[],
  {
    protocol,
    host,
  }: { readonly protocol?: string | undefined; readonly host?: string | undefined },
): Credential | undefined =>
  credentials.find(({ origin }) => origin === `${protocol}://${host?.toLowerCase()}`)

const isWeb = ({ protocol }: URL): boolean => protocol === "https:" || protocol === "http:"

/** git's own lines, `key=value`, as it writes them to a helper. */
export const parseCredentialRequest = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf("=")
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : []
    }),
  )

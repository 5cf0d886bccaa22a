/** Which git host receives which token. Pure; the rules for addresses are in lib/git-url.ts. */
import { ownerAndName, webOrigin } from "../../lib/git-url.ts"

export interface Repository {
  readonly url: string
  readonly branch?: string | undefined
  readonly ref?: string | undefined
  /** A branch that the repository does not have is created in the clone. */
  readonly createsBranch?: boolean | undefined
  readonly depth?: number | undefined
  /** The directory below the workspace; derived from the address if absent. */
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

/** The user name that goes with a token; GitHub and GitLab accept it. */
export const TOKEN_USER = "oauth2"
const GITHUB = "https://github.com"

/**
 * The credential of each origin. Order of precedence: the repository's own token, the password in its address, then the
 * sandbox's token, which is for the first repository's origin only (GitHub if there is no repository).
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
    const origin = webOrigin(url)
    add(origin, TOKEN_USER, own)
    if (origin === undefined) continue
    const { username, password } = new URL(url)
    add(origin, decodeURIComponent(username) || TOKEN_USER, decodeURIComponent(password))
  }
  const [first] = repositories
  add(first === undefined ? GITHUB : webOrigin(first.url), TOKEN_USER, token)
  return [...found.values()]
}

/** The origins of a session's repositories: tokens are issued for these only. */
export const tokenOrigins = (repositories: readonly Repository[]): readonly string[] => [
  ...new Set(repositories.flatMap(({ url }) => webOrigin(url) ?? [])),
]

/** owner/name of the session's repositories of an origin. */
export const repositoriesAt = (
  origin: string,
  repositories: readonly Repository[],
): readonly string[] =>
  repositories.flatMap(({ url }) => (webOrigin(url) === origin ? (ownerAndName(url) ?? []) : []))

/** Only an exact match of protocol and host gets a credential. */
export const credentialFor = (
  credentials: readonly Credential[],
  {
    protocol,
    host,
  }: { readonly protocol?: string | undefined; readonly host?: string | undefined },
): Credential | undefined =>
  credentials.find(({ origin }) => origin === `${protocol}://${host?.toLowerCase()}`)

/** Parses the `key=value` lines that git writes to a credential helper. */
export const parseCredentialRequest = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf("=")
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : []
    }),
  )

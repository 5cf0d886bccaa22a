/** The logins of browsers to the page: which are valid, which to keep, when to renew. Pure: hashes and times only. */

export interface PageLogin {
  /** SHA-256 of the cookie and of the key, in hex. Neither is stored. */
  readonly cookie: string
  readonly key: string
  readonly createdAt: number
  /** The last use that was stored. */
  readonly usedAt: number
  /** Of a login with a token: the token, encrypted with cookie and key, and the hash of the token. */
  readonly sealed?: string | undefined
  readonly who?: string | undefined
}

/** How long the code of a login link is valid. */
export const LOGIN_CODE_MS = 10 * 60_000
export const IDLE_MS = 12 * 3_600_000
export const MOST_MS = 30 * 24 * 3_600_000
/** A use within this time of the stored one is not stored. */
const RENEW_MS = 60_000
const MOST_LOGINS = 100
/** Logins with tokens have limits of their own, so that they never take the place of the operator's. */
const MOST_TOKEN_LOGINS = 500
const MOST_OF_ONE_TOKEN = 10

export const isValid = ({ createdAt, usedAt }: PageLogin, now: number): boolean =>
  now < usedAt + IDLE_MS && now < createdAt + MOST_MS

/** The login with this key and one of these cookies, all as hashes, if it is valid; `due` says that its use is to be stored and its cookie sent again. */
export const findLogin = (
  logins: readonly PageLogin[],
  cookies: readonly string[],
  key: string,
  now: number,
): { readonly login: PageLogin; readonly due: boolean } | undefined => {
  const login = logins.find(
    (one) => one.key === key && cookies.includes(one.cookie) && isValid(one, now),
  )
  return login && { login, due: now - login.usedAt >= RENEW_MS }
}

/** The valid logins with this one added; the least recently used ones give way. */
export const withLogin = (
  logins: readonly PageLogin[],
  added: PageLogin,
  now: number,
): readonly PageLogin[] => {
  const valid = [added, ...logins.filter((one) => isValid(one, now))]
  const recent = valid.toSorted((one, other) => other.usedAt - one.usedAt)
  const keep = (mine: (login: PageLogin) => boolean, most: number): readonly PageLogin[] => {
    const others = recent.filter((one) => one !== added && mine(one))
    return others.slice(0, mine(added) ? most - 1 : most)
  }
  const kept = [
    ...keep(({ who }) => who === undefined, MOST_LOGINS),
    ...keep(({ who }) => who !== undefined && who !== added.who, MOST_TOKEN_LOGINS - 1),
    ...keep(({ who }) => who !== undefined && who === added.who, MOST_OF_ONE_TOKEN),
  ]
  return [...kept, added]
}

/** Without the logins of one token; without `who`, without all of them. */
export const withoutLogins = (
  logins: readonly PageLogin[],
  who: string | undefined,
): readonly PageLogin[] => (who === undefined ? [] : logins.filter((one) => one.who !== who))

export const withUse = (
  logins: readonly PageLogin[],
  used: PageLogin,
  now: number,
): readonly PageLogin[] => logins.map((one) => (one === used ? { ...one, usedAt: now } : one))

/** How long the cookie lives from now on. */
export const cookieSeconds = ({ createdAt }: PageLogin, now: number): number =>
  Math.max(0, Math.ceil(Math.min(IDLE_MS, createdAt + MOST_MS - now) / 1000))

/** The logins of browsers to the page, as the servers of the page use them. */

type Later<T> = T | Promise<T>

export interface NewLogin {
  readonly cookie: string
  readonly key: string
  readonly maxAgeSeconds: number
}

/** A login of a person with a token of their own. */
export interface TokenLogin {
  readonly cookie: string
  readonly key: string
  /** The token, encrypted with the cookie and the key, which are not stored. */
  readonly sealed: string
  /** The hash of the token: logins with the same token end together. */
  readonly who: string
}

export interface UsedLogin {
  /** The one of the given cookies that belongs to the login. */
  readonly cookie: string
  /** The cookie is to be sent again. */
  readonly renewSeconds: number | undefined
  /** Present: the login has the rights of this token. Absent: it is the operator's. */
  readonly sealed?: string | undefined
}

/** Codes, cookies and keys are stored as hashes only. */
export interface PageLogins {
  /** A new login for a valid code, which becomes invalid. */
  readonly redeem: (code: string) => NewLogin | undefined
  /** Stores the login of a token that was checked. */
  readonly begin: (login: TokenLogin) => { readonly maxAgeSeconds: number }
  /** All cookies of the page's name, as a browser sends them. Undefined if none of them and the key are of one valid login. */
  readonly use: (cookies: readonly string[], key: string) => UsedLogin | undefined
  /** Ends every login and makes every code invalid. With `who`, ends the logins of one token. */
  readonly endAll: (who?: string) => void
}

/** The same where the logins are stored in another object. */
export type RemotePageLogins = {
  readonly [Name in keyof PageLogins]: (
    ...args: Parameters<PageLogins[Name]>
  ) => Later<ReturnType<PageLogins[Name]>>
}

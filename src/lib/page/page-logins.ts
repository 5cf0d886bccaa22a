/** The logins of browsers to the page, as the servers of the page use them. */

type Later<T> = T | Promise<T>

export interface NewLogin {
  readonly cookie: string
  readonly key: string
  readonly maxAgeSeconds: number
}

/** Codes, cookies and keys are stored as hashes only. */
export interface PageLogins {
  /** A new login for a valid code, which becomes invalid. */
  readonly redeem: (code: string) => NewLogin | undefined
  /** Undefined if cookie and key are not of one valid login. `renewSeconds`: the cookie is to be sent again. */
  readonly use: (
    cookie: string,
    key: string,
  ) => { readonly renewSeconds: number | undefined } | undefined
  /** Ends every login and makes every code invalid. */
  readonly endAll: () => void
}

/** The same where the logins are stored in another object. */
export type RemotePageLogins = {
  readonly [Name in keyof PageLogins]: (
    ...args: Parameters<PageLogins[Name]>
  ) => Later<ReturnType<PageLogins[Name]>>
}

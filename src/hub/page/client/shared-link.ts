/** Login links and share links of the page: `#login=<code>` and `#share=<session>/<token>`. */

export type LoginOffer =
  | { readonly code: string }
  | { readonly token: string; readonly session?: string }

/** What the fragment of the address offers, if anything. */
export const offerOf = (fragment: string): LoginOffer | undefined => {
  const code = /^#login=([\w-]+)$/.exec(fragment)?.[1]
  if (code !== undefined) return { code }
  const [, session, token] = /^#share=([\w.:%-]{1,200})\/(sps_[\w-]{1,100})$/.exec(fragment) ?? []
  if (session === undefined || token === undefined) return undefined
  try {
    return { token, session: decodeURIComponent(session) }
  } catch {
    return undefined
  }
}

/** What a person pastes: a share link, or an API key or another token. */
export const pastedOffer = (text: string): LoginOffer | undefined => {
  const given = text.trim()
  const at = given.indexOf("#")
  if (at !== -1) return offerOf(given.slice(at))
  return /^[\x21-\x7e]+$/.test(given) ? { token: given } : undefined
}

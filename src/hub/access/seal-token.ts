/**
 * The token of a page's login, encrypted with the cookie and the key of that login. The hub stores neither, so its files
 * hold no usable token. Web Crypto only: the same in every host.
 */
import { base64url } from "jose"
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"

const token = z.object({
  token: z.string(),
  /** The session of a share link. */
  session: z.string().optional(),
})
export type PageToken = z.output<typeof token>

const IV_BYTES = 12
const encoder = new TextEncoder()

/** Cookie and key have 256 random bits each, so one hash of them is a key. */
const keyOf = async (cookie: string, key: string): Promise<CryptoKey> => {
  const secret = await crypto.subtle.digest(
    "SHA-256",
    encoder.encode(`sandpiper page login\n${cookie}\n${key}`),
  )
  return crypto.subtle.importKey("raw", secret, "AES-GCM", false, ["encrypt", "decrypt"])
}

export const sealToken = async (cookie: string, key: string, plain: PageToken): Promise<string> => {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
  const text = encoder.encode(JSON.stringify(plain))
  const sealed = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv },
    await keyOf(cookie, key),
    text,
  )
  return base64url.encode(new Uint8Array([...iv, ...new Uint8Array(sealed)]))
}

/** Undefined if the text was changed or belongs to another login. */
export const openToken = async (
  cookie: string,
  key: string,
  sealed: string,
): Promise<PageToken | undefined> => {
  try {
    const bytes = new Uint8Array(base64url.decode(sealed))
    const plain = await crypto.subtle.decrypt(
      { name: "AES-GCM", iv: bytes.slice(0, IV_BYTES) },
      await keyOf(cookie, key),
      bytes.slice(IV_BYTES),
    )
    return token.parse(parseJson(new TextDecoder().decode(plain)))
  } catch {
    return undefined
  }
}

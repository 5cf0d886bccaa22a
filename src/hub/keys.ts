/** Hashes and derived keys with Web Crypto only, so that they are the same in every host. */

import { hex, hmacOf } from "../lib/hmac.ts"

const encoder = new TextEncoder()

export const hashOf = async (secret: string): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", encoder.encode(secret)))

/** The key of one sandbox of one session: a leaked key is not valid for any other sandbox or session. */
export const gatewayKey = async (
  master: string,
  sessionId: string,
  generation: number,
): Promise<string> => {
  return hmacOf(master, `gateway:${sessionId}:${generation}`)
}

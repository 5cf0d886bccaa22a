/** Hashes and derived keys with Web Crypto only, so that they are the same in every host. */

const encoder = new TextEncoder()

const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("")

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

/** HMAC-SHA256 in hex. */
export const hmacOf = async (secret: string, text: string): Promise<string> => {
  const key = await crypto.subtle.importKey(
    "raw",
    encoder.encode(secret),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  )
  return hex(await crypto.subtle.sign("HMAC", key, encoder.encode(text)))
}

/** Hashes and derived keys, with nothing but Web Crypto: the same in every host. */

const encoder = new TextEncoder()

const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("")

export const hashOf = async (secret: string): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", encoder.encode(secret)))

/** A key of one session's one sandbox: whoever learns it can forge nothing for any other. */
export const gatewayKey = async (
  master: string,
  sessionId: string,
  generation: number,
): Promise<string> => {
  const key = await crypto.subtle.importKey(
    "raw",
    encoder.encode(master),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  )
  return hex(
    await crypto.subtle.sign("HMAC", key, encoder.encode(`gateway:${sessionId}:${generation}`)),
  )
}

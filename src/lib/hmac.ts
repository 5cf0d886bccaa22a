/** HMAC-SHA256 with Web Crypto only, so that it is the same in every runtime. */

const encoder = new TextEncoder()

export const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** In hex. */
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

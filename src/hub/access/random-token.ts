/** Random secrets as text that is safe in URLs and headers, from Web Crypto only: the same in every host. */
import { base64url } from "jose"

/** 256 bits, 43 characters. */
export const randomToken = (): string =>
  base64url.encode(crypto.getRandomValues(new Uint8Array(32)))

export const randomHex = (bytes: number): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("")

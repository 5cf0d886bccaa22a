/** Encrypts a small text with a secret of many random bits, and nothing that was changed or has another secret is opened. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"

const CIPHER = "aes-256-gcm"
const IV_BYTES = 12
const TAG_BYTES = 16

/** `purpose` separates the keys of different uses of one secret. */
const keyOf = (secret: string, purpose: string): Uint8Array =>
  new Uint8Array(hkdfSync("sha256", secret, "", purpose, 32))

export const seal = (secret: string, purpose: string, text: string): string => {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(CIPHER, keyOf(secret, purpose), iv)
  const sealed = [cipher.update(text, "utf8"), cipher.final()]
  return Buffer.concat([iv, cipher.getAuthTag(), ...sealed]).toString("base64")
}

export const unseal = (secret: string, purpose: string, sealed: string): string | undefined => {
  const bytes = Buffer.from(sealed, "base64")
  if (bytes.length < IV_BYTES + TAG_BYTES) return undefined
  const opener = createDecipheriv(CIPHER, keyOf(secret, purpose), bytes.subarray(0, IV_BYTES))
  opener.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
  try {
    const opened = [opener.update(bytes.subarray(IV_BYTES + TAG_BYTES)), opener.final()]
    return Buffer.concat(opened).toString("utf8")
  } catch {
    return undefined
  }
}

/** SHA-256 of a text, with its algorithm as a prefix. Works in Bun and in a Durable Object. */
import { createHash } from "node:crypto"

export const digestOf = (text: string): string =>
  `sha256:${createHash("sha256").update(text).digest("hex")}`

/** The first letters of the digest in hexadecimal, for names. */
export const shortDigest = (text: string, length: number): string =>
  digestOf(text).replace(/^.*:/, "").slice(0, length)

/**
 * Secrets at rest: AES-256-GCM with a key from HUB_ENCRYPTION_KEY. A stored value is bound to its owner, session and
 * field, so a value copied to another row does not decrypt.
 */
import { base64url } from "jose"
import { hashOf } from "../keys.ts"

/** Where a value is stored. A session that changes its owner must have its values encrypted again. */
export interface SecretPlace {
  readonly owner: string
  readonly session: string
  readonly field: string
}

export interface Keyring {
  /** With the first key. */
  readonly encrypt: (place: SecretPlace, text: string) => Promise<string>
  /** Throws an EncryptionError. */
  readonly decrypt: (place: SecretPlace, stored: string) => Promise<string>
}

export type EncryptionProblem = "bad-key" | "unknown-key" | "malformed" | "not-authentic"

export class EncryptionError extends Error {
  override readonly name = "EncryptionError"
  readonly problem: EncryptionProblem

  constructor(problem: EncryptionProblem, message: string) {
    super(message)
    this.problem = problem
  }
}

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const VERSION = "enc1"
const ID = /^[A-Za-z0-9_-]{1,32}$/
const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

interface NamedKey {
  readonly id: string
  /** Derived from the key: a value stays readable when its key is given another id later. */
  readonly fingerprint: string
  readonly key: CryptoKey
}

/** Reads `base64`, or `id:base64,id:base64`. The first key encrypts, every key decrypts. */
export const readKeyring = async (text: string): Promise<Keyring> => {
  const keys = await Promise.all(text.split(",").map((entry, index) => readKey(entry, index + 1)))
  const [first] = keys
  if (first === undefined) throw badKey(1)
  const byId = new Map<string, NamedKey>()
  for (const named of keys) {
    if (byId.has(named.id)) {
      throw new EncryptionError(
        "bad-key",
        `HUB_ENCRYPTION_KEY: the id ${named.id} is used by two keys.`,
      )
    }
    byId.set(named.id, named)
  }
  for (const named of keys) {
    if (!byId.has(named.fingerprint)) byId.set(named.fingerprint, named)
  }
  return keyringOf(first, byId)
}

const readKey = async (entry: string, number: number): Promise<NamedKey> => {
  const colon = entry.indexOf(":")
  const bytes = bytesOf(entry.slice(colon + 1).trim())
  if (bytes?.length !== KEY_BYTES) throw badKey(number)
  const fingerprint = `k${(await hashOf(`sandpiper-key-id:${base64url.encode(bytes)}`)).slice(0, 12)}`
  const id = colon === -1 ? fingerprint : entry.slice(0, colon).trim()
  if (!ID.test(id)) throw badKey(number)
  const key = await crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"])
  return { id, fingerprint, key }
}

/** The message must not quote the key. */
const badKey = (number: number): EncryptionError =>
  new EncryptionError(
    "bad-key",
    `HUB_ENCRYPTION_KEY: key ${number} is not 32 bytes of base64, with an optional id before a colon. Make one with: openssl rand -base64 32`,
  )

const keyringOf = (first: NamedKey, keys: ReadonlyMap<string, NamedKey>): Keyring => {
  const encrypt: Keyring["encrypt"] = async (place, text) => {
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
    const sealed = await crypto.subtle.encrypt(
      { name: "AES-GCM", iv: nonce, additionalData: boundTo(place) },
      first.key,
      encoder.encode(text),
    )
    return [
      VERSION,
      first.id,
      base64url.encode(nonce),
      base64url.encode(new Uint8Array(sealed)),
    ].join(".")
  }

  const decrypt: Keyring["decrypt"] = async (place, stored) => {
    const { id, nonce, sealed } = parse(stored)
    const named = keys.get(id)
    if (named === undefined) {
      throw new EncryptionError(
        "unknown-key",
        `The stored secret was encrypted with the key ${id}, which HUB_ENCRYPTION_KEY does not contain. Add that key after the first one.`,
      )
    }
    try {
      const text = await crypto.subtle.decrypt(
        { name: "AES-GCM", iv: nonce, additionalData: boundTo(place) },
        named.key,
        sealed,
      )
      return decoder.decode(text)
    } catch {
      throw new EncryptionError(
        "not-authentic",
        `The stored secret ${place.field} of the session ${place.session} does not decrypt: it was changed or moved, or the key ${id} is another key than before.`,
      )
    }
  }

  return {
    encrypt,
    decrypt,
  }
}

/** A row from before encryption holds plain text; it must be encrypted when the host finds it. */
export const isEncrypted = (stored: string): boolean => stored.startsWith(`${VERSION}.`)

const parse = (stored: string) => {
  const [version, id = "", nonceText = "", sealedText = "", ...more] = stored.split(".")
  const nonce = bytesOf(nonceText)
  const sealed = bytesOf(sealedText)
  if (
    version !== VERSION ||
    more.length > 0 ||
    !ID.test(id) ||
    nonce?.length !== NONCE_BYTES ||
    sealed === undefined ||
    sealed.length < TAG_BYTES
  ) {
    throw new EncryptionError("malformed", "The stored secret is not in the expected form.")
  }
  return { id, nonce, sealed }
}

/** JSON of an array: no two places have the same text, wherever a name contains a separator. */
const boundTo = ({ owner, session, field }: SecretPlace): Uint8Array<ArrayBuffer> =>
  encoder.encode(JSON.stringify([VERSION, owner, session, field]))

/** Base64 or base64url, with or without padding. */
const bytesOf = (text: string): Uint8Array<ArrayBuffer> | undefined => {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) return undefined
  try {
    return Uint8Array.from(
      base64url.decode(text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")),
    )
  } catch {
    return undefined
  }
}

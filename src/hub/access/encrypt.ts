/**
 * Secrets at rest: AES-256-GCM with a key from HUB_ENCRYPTION_KEY. A stored value is bound to its owner, session and
 * field, so a value copied to another row does not decrypt.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto"

/** Where a value is stored. A session that changes its owner must have its values encrypted again. */
export interface SecretPlace {
  readonly owner: string
  readonly session: string
  readonly field: string
}

export interface Keyring {
  /** With the first key. */
  readonly encrypt: (place: SecretPlace, text: string) => string
  /** Throws an EncryptionError. */
  readonly decrypt: (place: SecretPlace, stored: string) => string
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
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

interface NamedKey {
  readonly id: string
  /** Derived from the key: a value stays readable when its key is given another id later. */
  readonly fingerprint: string
  readonly key: Buffer
}

/** Reads `base64`, or `id:base64,id:base64`. The first key encrypts, every key decrypts. */
export const readKeyring = (text: string): Keyring => {
  const keys = text.split(",").map((entry, index) => readKey(entry, index + 1))
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

const readKey = (entry: string, number: number): NamedKey => {
  const colon = entry.indexOf(":")
  const key = bytesOf(entry.slice(colon + 1).trim())
  if (key?.length !== KEY_BYTES) throw badKey(number)
  const digest = createHash("sha256").update(`sandpiper-key-id:${key.toString("base64url")}`)
  const fingerprint = `k${digest.digest("hex").slice(0, 12)}`
  const id = colon === -1 ? fingerprint : entry.slice(0, colon).trim()
  if (!ID.test(id)) throw badKey(number)
  return { id, fingerprint, key }
}

/** The message must not quote the key. */
const badKey = (number: number): EncryptionError =>
  new EncryptionError(
    "bad-key",
    `HUB_ENCRYPTION_KEY: key ${number} is not 32 bytes of base64, with an optional id before a colon. Make one with: openssl rand -base64 32`,
  )

const keyringOf = (first: NamedKey, keys: ReadonlyMap<string, NamedKey>): Keyring => {
  const encrypt: Keyring["encrypt"] = (place, text) => {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv("aes-256-gcm", first.key, nonce).setAAD(boundTo(place))
    const sealed = [cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]
    const parts = [nonce, Buffer.concat(sealed)].map((bytes) => bytes.toString("base64url"))
    return [VERSION, first.id, ...parts].join(".")
  }

  const decrypt: Keyring["decrypt"] = (place, stored) => {
    const { id, nonce, sealed } = parse(stored)
    const named = keys.get(id)
    if (named === undefined) {
      throw new EncryptionError(
        "unknown-key",
        `The stored secret was encrypted with the key ${id}, which HUB_ENCRYPTION_KEY does not contain. Add that key after the first one.`,
      )
    }
    try {
      const decipher = createDecipheriv("aes-256-gcm", named.key, nonce).setAAD(boundTo(place))
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
      const text = decipher.update(sealed.subarray(0, -TAG_BYTES))
      return decoder.decode(Buffer.concat([text, decipher.final()]))
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
const boundTo = ({ owner, session, field }: SecretPlace): Buffer =>
  Buffer.from(JSON.stringify([VERSION, owner, session, field]))

/** Base64 or base64url, with or without padding. */
const bytesOf = (text: string): Buffer | undefined =>
  /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) ? Buffer.from(text, "base64") : undefined

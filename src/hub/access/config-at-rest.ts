/** The encrypted config of a session: read when the session is opened, before any of its code runs. */
import { one, type Sql } from "../session/ports.ts"
import { migrate } from "../session/schema.ts"
import { isEncrypted, type Keyring } from "./encrypt.ts"
import type { Owner } from "./ownership.ts"

const NO_KEY =
  "The session agent has no encryption key, so it stores no config: set HUB_ENCRYPTION_KEY (openssl rand -base64 32)."

const placeOf = (owner: Owner, session: string) => ({ owner, session, field: "config" })

const mustHave = (keyring: Keyring | undefined): Keyring => {
  if (keyring === undefined) throw new Error(NO_KEY)
  return keyring
}

export const sealConfig = (
  keyring: Keyring | undefined,
  owner: Owner,
  session: string,
  text: string,
): string => mustHave(keyring).encrypt(placeOf(owner, session), text)

/**
 * The plain text of the stored config; `undefined` when there is none. A row from before encryption is encrypted here:
 * `encrypted` is then true, and the host must remove the old text from its files.
 */
export const openConfig = (
  sql: Sql,
  keyring: Keyring | undefined,
  owner: Owner,
  session: string,
): { readonly text: string | undefined; readonly encrypted: boolean } => {
  migrate(sql)
  const stored = one(
    sql.all<{ value: string }>("SELECT value FROM meta WHERE name = 'config'"),
  )?.value
  if (stored === undefined) return { text: undefined, encrypted: false }
  if (isEncrypted(stored)) {
    return { text: mustHave(keyring).decrypt(placeOf(owner, session), stored), encrypted: false }
  }
  const sealed = sealConfig(keyring, owner, session, stored)
  sql.run("UPDATE meta SET value = ? WHERE name = 'config'", sealed)
  return { text: stored, encrypted: true }
}

/** Gives a session of the warm pool to its owner. Its config is encrypted for the owner in the same transaction. */
import type { Session } from "../session/session.ts"
import { openConfig, sealConfig } from "./config-at-rest.ts"
import type { Keyring } from "./encrypt.ts"
import type { Sql } from "../session/ports.ts"
import { type Owner, POOL_OWNER } from "./ownership.ts"
import type { SessionAccess } from "./session-access.ts"

export interface HandOverParts {
  readonly id: string
  readonly sql: Sql
  readonly keyring: Keyring | undefined
  readonly access: SessionAccess
  readonly session: Session
}

/** A repeated call changes nothing. Undefined if it is done, otherwise why it is refused. */
export const handOver = (
  { id, sql, keyring, access, session }: HandOverParts,
  owner: Owner,
  creator?: string,
): string | undefined => {
  const now = access.owner()
  if (now === owner) return undefined
  if (now !== POOL_OWNER) return `session ${id} belongs to another owner`
  const { text } = openConfig(sql, keyring, now, id)
  const sealed = text === undefined ? undefined : sealConfig(keyring, owner, id, text)
  sql.transaction(() => {
    access.setOwner(owner, [], creator)
    if (sealed !== undefined) sql.run("UPDATE meta SET value = ? WHERE name = 'config'", sealed)
  })
  // At once: prompts of the owner leave after it.
  session.runner.git.send()
  return undefined
}

/** Secrets of webhooks: a trigger's row holds a hash, so a copy of the database opens no webhook. */
import { sameText } from "../../lib/constant-time.ts"
import type { Sql } from "../session/ports.ts"
import { selectAll, type TriggerConfig, triggerRow } from "../shared-store/rows.ts"
import type { HandlerContext } from "./handler-context.ts"

type Digest = HandlerContext["digest"]

/** Bound to the trigger, so that two triggers with the same secret have different hashes. */
const hashOf = (digest: Digest, trigger: string, secret: string): string =>
  digest(JSON.stringify(["webhook", trigger, secret]))

/** The config as it is stored: with the hash of the given secret, or with the hash that the row had before. */
export const hideSecret = (
  digest: Digest,
  trigger: string,
  given: TriggerConfig,
  before?: TriggerConfig,
): TriggerConfig => {
  // A caller must not choose the stored hash.
  const { secret, secretHash: _hash, ...config } = given as TriggerConfig & WebhookFields
  if (config.type !== "webhook") return config
  if (secret !== undefined) return { ...config, secretHash: hashOf(digest, trigger, secret) }
  const known = before?.type === "webhook" ? before.secretHash : undefined
  return known === undefined ? config : { ...config, secretHash: known }
}

interface WebhookFields {
  readonly secret?: string
  readonly secretHash?: string
}

export const isSecretOf = (
  digest: Digest,
  trigger: string,
  config: TriggerConfig,
  secret: string,
): boolean =>
  config.type === "webhook" &&
  config.secretHash !== undefined &&
  sameText(hashOf(digest, trigger, secret), config.secretHash)

/** Replaces the plain secrets of an older version. True when there were some: the host must compact its file. */
export const hideStoredSecrets = (sql: Sql, digest: Digest): boolean => {
  const plain = selectAll(
    sql,
    triggerRow,
    "SELECT * FROM triggers WHERE json_extract(config, '$.secret') IS NOT NULL",
  )
  for (const { id, config } of plain) {
    const hidden = JSON.stringify(hideSecret(digest, id, config))
    sql.run("UPDATE triggers SET config = ? WHERE id = ?", hidden, id)
  }
  // Results of requests that an older version stored with their secret.
  const results = sql.all(
    "DELETE FROM rpc WHERE json_extract(result, '$.data.trigger.secret') IS NOT NULL RETURNING 1",
  )
  return plain.length > 0 || results.length > 0
}

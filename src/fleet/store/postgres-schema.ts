/**
 * The tables of the fleet's store on PostgreSQL. They are changed only by the first replica of a new version: a change of a
 * table waits for every transaction on it and stops all others meanwhile, so an ordinary start must not make one.
 */
import type { SQL } from "bun"

/** Increases with every change of the statements below. */
const VERSION = 10

const tables = `
CREATE TABLE IF NOT EXISTS deployment (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sandbox_sessions (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
  life TEXT NOT NULL, rev BIGINT NOT NULL, caller TEXT, call_until BIGINT, due_at BIGINT,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, UNIQUE (tenant, thread_key));
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS kind TEXT NOT NULL DEFAULT 'hub';
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS pool_key TEXT;
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS ref TEXT;
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS tidy_at BIGINT;
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS creator TEXT;
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS held_until BIGINT;
ALTER TABLE sandbox_sessions ADD COLUMN IF NOT EXISTS admitted INTEGER NOT NULL DEFAULT 0;
UPDATE sandbox_sessions SET ref = life::json ->> 'ref' WHERE ref IS NULL;
CREATE TABLE IF NOT EXISTS idempotency (
  tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, status INTEGER, body TEXT, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, key));
CREATE INDEX IF NOT EXISTS sandbox_sessions_due ON sandbox_sessions (due_at);
CREATE INDEX IF NOT EXISTS sandbox_sessions_ref ON sandbox_sessions (ref);
CREATE INDEX IF NOT EXISTS sandbox_sessions_order ON sandbox_sessions (created_at, id);
CREATE INDEX IF NOT EXISTS sandbox_sessions_call ON sandbox_sessions (call_until) WHERE call_until IS NOT NULL;
DROP INDEX IF EXISTS sandbox_sessions_active;
CREATE INDEX IF NOT EXISTS sandbox_sessions_of_owner ON sandbox_sessions (tenant)
  WHERE ref IS NOT NULL OR caller IS NOT NULL OR admitted = 1;
CREATE INDEX IF NOT EXISTS sandbox_sessions_pool ON sandbox_sessions (kind, pool_key, created_at, id)
  WHERE kind IN ('pool', 'claimed');
CREATE INDEX IF NOT EXISTS sandbox_sessions_present ON sandbox_sessions (created_at, id)
  WHERE life::json ->> 'phase' <> 'ended';
CREATE INDEX IF NOT EXISTS sandbox_sessions_ended ON sandbox_sessions (tidy_at, updated_at)
  WHERE life::json ->> 'phase' = 'ended';
CREATE STATISTICS IF NOT EXISTS sandbox_sessions_phase ON (life::json ->> 'phase') FROM sandbox_sessions;
CREATE TABLE IF NOT EXISTS snapshots (id TEXT PRIMARY KEY, session TEXT NOT NULL, created_at BIGINT NOT NULL);
ALTER TABLE snapshots ADD COLUMN IF NOT EXISTS ref TEXT;
CREATE INDEX IF NOT EXISTS snapshots_ref ON snapshots (ref);
CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS creates (
  session TEXT NOT NULL, generation BIGINT NOT NULL, tenant TEXT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (session, generation));
CREATE INDEX IF NOT EXISTS creates_tenant ON creates (tenant, at);
CREATE TABLE IF NOT EXISTS running_seconds (
  tenant TEXT NOT NULL, day BIGINT NOT NULL, seconds DOUBLE PRECISION NOT NULL, PRIMARY KEY (tenant, day));
CREATE TABLE IF NOT EXISTS left_volumes (
  session TEXT PRIMARY KEY, provider TEXT NOT NULL, left_at BIGINT NOT NULL, look_at BIGINT);
CREATE TABLE IF NOT EXISTS prompt_counts (session TEXT PRIMARY KEY, counts TEXT NOT NULL, at BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS lives (
  session TEXT NOT NULL, generation BIGINT NOT NULL, ref TEXT NOT NULL, tenant TEXT NOT NULL, provider TEXT NOT NULL,
  image TEXT, created_at BIGINT NOT NULL, ended_at BIGINT, why_ended TEXT, seconds DOUBLE PRECISION NOT NULL,
  counted_at BIGINT, cost_per_hour DOUBLE PRECISION, PRIMARY KEY (session, generation, ref));
CREATE INDEX IF NOT EXISTS lives_ended ON lives (ended_at);
CREATE INDEX IF NOT EXISTS lives_ref ON lives (ref);
CREATE INDEX IF NOT EXISTS lives_running ON lives (session) WHERE counted_at IS NOT NULL;
INSERT INTO lives (session, generation, ref, tenant, provider, created_at, seconds, counted_at)
  SELECT id, (life::json ->> 'generation')::bigint, ref, tenant, provider, updated_at, 0,
    CASE WHEN life::json ->> 'phase' = 'paused' THEN NULL ELSE updated_at END
  FROM sandbox_sessions WHERE ref IS NOT NULL ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS schema_version (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL);
`

/** Replicas of the former version still work: their transactions take milliseconds. */
const LOCK_TIMEOUT_MS = 20_000

const versionOf = async (sql: SQL): Promise<number> => {
  const [known] =
    (await sql`SELECT to_regclass('schema_version') IS NOT NULL AS known`) as readonly {
      readonly known: boolean
    }[]
  if (known?.known !== true) return 0
  const [row] = (await sql`SELECT version FROM schema_version`) as readonly {
    readonly version: number
  }[]
  return row?.version ?? 0
}

export const setUpPostgres = async (sql: SQL): Promise<void> => {
  if ((await versionOf(sql)) >= VERSION) return
  await sql.begin(async (transaction) => {
    await transaction.unsafe(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
    // Two replicas that start at the same time would create the same tables.
    await transaction`SELECT pg_advisory_xact_lock(7235901)`
    if ((await versionOf(transaction)) >= VERSION) return
    await transaction.unsafe(tables)
    await transaction`INSERT INTO deployment VALUES (1, ${crypto.randomUUID()}) ON CONFLICT DO NOTHING`
    await transaction`INSERT INTO schema_version VALUES (1, ${VERSION})
      ON CONFLICT (only_row) DO UPDATE SET version = excluded.version`
  })
}

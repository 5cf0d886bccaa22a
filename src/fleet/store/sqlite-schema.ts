/** The tables of the fleet's store on bun:sqlite. A database of an earlier version is brought up to date when it is opened. */
import type { Database } from "bun:sqlite"

const setUp = [
  "PRAGMA journal_mode = WAL",
  "PRAGMA synchronous = NORMAL",
  "PRAGMA busy_timeout = 5000",
  "CREATE TABLE IF NOT EXISTS deployment (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL) STRICT",
  `CREATE TABLE IF NOT EXISTS sandbox_sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
    life TEXT NOT NULL, rev INTEGER NOT NULL, caller TEXT, call_until INTEGER, due_at INTEGER,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, kind TEXT NOT NULL DEFAULT 'hub',
    pool_key TEXT, ref TEXT, tidy_at INTEGER, creator TEXT, held_until INTEGER,
    admitted INTEGER NOT NULL DEFAULT 0, UNIQUE (tenant, thread_key)) STRICT`,
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_due ON sandbox_sessions (due_at)",
  `CREATE TABLE IF NOT EXISTS idempotency (
    tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, status INTEGER, body TEXT, at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)) STRICT`,
  `CREATE TABLE IF NOT EXISTS snapshots (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, created_at INTEGER NOT NULL, ref TEXT) STRICT`,
  "CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT",
  `CREATE TABLE IF NOT EXISTS creates (
    session TEXT NOT NULL, generation INTEGER NOT NULL, tenant TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (session, generation)) STRICT`,
  "CREATE INDEX IF NOT EXISTS creates_tenant ON creates (tenant, at)",
  `CREATE TABLE IF NOT EXISTS running_seconds (
    tenant TEXT NOT NULL, day INTEGER NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (tenant, day)) STRICT`,
  `CREATE TABLE IF NOT EXISTS left_volumes (
    session TEXT PRIMARY KEY, provider TEXT NOT NULL, left_at INTEGER NOT NULL, look_at INTEGER) STRICT`,
  "CREATE TABLE IF NOT EXISTS prompt_counts (session TEXT PRIMARY KEY, counts TEXT NOT NULL, at INTEGER NOT NULL) STRICT",
]

/** After the columns exist, also in a database of an earlier version. */
const indexes = [
  "CREATE INDEX IF NOT EXISTS snapshots_ref ON snapshots (ref)",
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_ref ON sandbox_sessions (ref)",
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_order ON sandbox_sessions (created_at, id)",
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_call ON sandbox_sessions (call_until) WHERE call_until IS NOT NULL",
  "DROP INDEX IF EXISTS sandbox_sessions_active",
  `CREATE INDEX IF NOT EXISTS sandbox_sessions_of_owner ON sandbox_sessions (tenant)
    WHERE ref IS NOT NULL OR caller IS NOT NULL OR admitted = 1`,
  "CREATE INDEX IF NOT EXISTS sandbox_sessions_pool ON sandbox_sessions (kind, pool_key, created_at, id)",
  `CREATE INDEX IF NOT EXISTS sandbox_sessions_present ON sandbox_sessions (created_at, id)
    WHERE json_extract(life, '$.phase') <> 'ended'`,
  `CREATE INDEX IF NOT EXISTS sandbox_sessions_ended ON sandbox_sessions (tidy_at, updated_at)
    WHERE json_extract(life, '$.phase') = 'ended'`,
]

const recordTables = [
  `CREATE TABLE IF NOT EXISTS lives (
    session TEXT NOT NULL, generation INTEGER NOT NULL, ref TEXT NOT NULL, tenant TEXT NOT NULL, provider TEXT NOT NULL,
    image TEXT, created_at INTEGER NOT NULL, ended_at INTEGER, why_ended TEXT, seconds REAL NOT NULL, counted_at INTEGER,
    cost_per_hour REAL, PRIMARY KEY (session, generation, ref)) STRICT`,
  "CREATE INDEX IF NOT EXISTS lives_ended ON lives (ended_at)",
  "CREATE INDEX IF NOT EXISTS lives_running ON lives (session) WHERE counted_at IS NOT NULL",
]

/** Sandboxes of before there were records: they count from the last change of their session. */
const recordExisting = `INSERT OR IGNORE INTO lives
    (session, generation, ref, tenant, provider, created_at, seconds, counted_at)
  SELECT id, json_extract(life, '$.generation'), ref, tenant, provider, updated_at, 0,
    CASE WHEN json_extract(life, '$.phase') = 'paused' THEN NULL ELSE updated_at END
  FROM sandbox_sessions WHERE ref IS NOT NULL`

export const setUpSqlite = (db: Database): void => {
  for (const statement of setUp) db.run(statement)
  // A database of an earlier version.
  const columns = db.query<{ name: string }, []>("PRAGMA table_info(sandbox_sessions)").all()
  for (const [column, type] of [
    ["kind", "TEXT NOT NULL DEFAULT 'hub'"],
    ["pool_key", "TEXT"],
    ["ref", "TEXT"],
    ["tidy_at", "INTEGER"],
    ["creator", "TEXT"],
    ["held_until", "INTEGER"],
    ["admitted", "INTEGER NOT NULL DEFAULT 0"],
  ] as const)
    if (columns.every(({ name }) => name !== column))
      db.run(`ALTER TABLE sandbox_sessions ADD COLUMN ${column} ${type}`)
  if (columns.every(({ name }) => name !== "ref"))
    db.run("UPDATE sandbox_sessions SET ref = json_extract(life, '$.ref')")
  const ofSnapshots = db.query<{ name: string }, []>("PRAGMA table_info(snapshots)").all()
  if (ofSnapshots.every(({ name }) => name !== "ref"))
    db.run("ALTER TABLE snapshots ADD COLUMN ref TEXT")
  for (const statement of indexes) db.run(statement)
  const hasRecords = db.query("SELECT 1 FROM sqlite_master WHERE name = 'lives'").get() !== null
  if (!hasRecords)
    db.transaction(() => {
      for (const statement of [...recordTables, recordExisting]) db.run(statement)
    }).immediate()
  db.run("CREATE INDEX IF NOT EXISTS lives_ref ON lives (ref)")
  db.query("INSERT OR IGNORE INTO deployment VALUES (1, ?)").run(crypto.randomUUID())
}

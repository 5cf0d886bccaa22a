/** The tables of one session. Invariants are constraints here, so they hold in any order of calls. */
import { addColumns } from "./add-columns.ts"
import { adoptOldRows } from "./adopt-old-rows.ts"
import { createDeliveryTable } from "./delivery-rows.ts"
import type { Sql } from "./ports.ts"
import { migrateSearchIndex } from "./search-index.ts"

const INTERACTIONS = `CREATE TABLE IF NOT EXISTS interactions (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('question', 'permission', 'approval')), prompt_id TEXT,
    channel TEXT NOT NULL, payload TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'answered', 'expired')),
    answer TEXT, answered_by TEXT, at INTEGER NOT NULL)`

const statements = [
  // Named values: clients see those in `state`; tokens, keys and config are in `meta`.
  "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
  `CREATE TABLE IF NOT EXISTS link (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    connection TEXT, epoch TEXT,
    phase TEXT NOT NULL DEFAULT 'away', barrier TEXT, active TEXT NOT NULL DEFAULT '[]',
    ready INTEGER NOT NULL DEFAULT 0)`,
  "INSERT OR IGNORE INTO link (id) VALUES (1)",
  "CREATE TABLE IF NOT EXISTS epochs (epoch TEXT PRIMARY KEY, last_seq INTEGER NOT NULL)",
  "CREATE TABLE IF NOT EXISTS channels (key TEXT PRIMARY KEY, agent_session TEXT)",
  "CREATE TABLE IF NOT EXISTS channel_titles (key TEXT PRIMARY KEY, title TEXT NOT NULL)",
  `CREATE TABLE IF NOT EXISTS messages (
    id TEXT PRIMARY KEY, place INTEGER NOT NULL, role TEXT NOT NULL, channel TEXT NOT NULL,
    prompt_id TEXT, status TEXT NOT NULL CHECK (status IN ('streaming', 'done', 'error', 'canceled')),
    error TEXT, author TEXT, created_at INTEGER NOT NULL, ended_at INTEGER)`,
  "CREATE INDEX IF NOT EXISTS messages_place ON messages (place)",
  "CREATE INDEX IF NOT EXISTS messages_channel ON messages (channel, place)",
  "CREATE INDEX IF NOT EXISTS messages_prompt ON messages (prompt_id)",
  // A part that is longer than a row continues in another row with the same `base`.
  `CREATE TABLE IF NOT EXISTS parts (
    message_id TEXT NOT NULL, id TEXT NOT NULL, base TEXT NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL DEFAULT '', half INTEGER, size INTEGER NOT NULL DEFAULT 0, data TEXT,
    PRIMARY KEY (message_id, id))`,
  "CREATE INDEX IF NOT EXISTS parts_base ON parts (message_id, base, place)",
  // The change log. `rev` is the clients' cursor. It holds the newest change of each entity, and every text delta.
  `CREATE TABLE IF NOT EXISTS changes (
    rev INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, ref TEXT NOT NULL, start INTEGER)`,
  "CREATE UNIQUE INDEX IF NOT EXISTS changes_newest ON changes (kind, ref) WHERE kind <> 'delta'",
  `CREATE TABLE IF NOT EXISTS queue (
    id TEXT PRIMARY KEY, client_request_id TEXT UNIQUE, channel TEXT NOT NULL,
    place INTEGER NOT NULL, priority INTEGER NOT NULL DEFAULT 0, prompt TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'processing', 'done', 'failed', 'canceled')),
    stopping INTEGER NOT NULL DEFAULT 0, error TEXT, received_at INTEGER NOT NULL,
    dispatched_at INTEGER, ended_at INTEGER)`,
  // A prompt that steers runs beside the one whose turn it joins.
  "DROP INDEX IF EXISTS one_processing",
  `CREATE UNIQUE INDEX IF NOT EXISTS one_running ON queue (channel)
    WHERE status = 'processing' AND json_extract(prompt, '$.steer') IS NOT 1`,
  "CREATE INDEX IF NOT EXISTS queue_open ON queue (channel, status, priority, place)",
  // Blobs with the files of prompts that have not ended. At the end the rows are deleted first, then the blobs.
  `CREATE TABLE IF NOT EXISTS files (
    prompt TEXT NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (prompt, place))`,
  INTERACTIONS,
  "CREATE INDEX IF NOT EXISTS interactions_open ON interactions (channel) WHERE status = 'open'",
  `CREATE TABLE IF NOT EXISTS asks (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, result TEXT, at INTEGER NOT NULL)`,
  // The file that a client's `diff` is about.
  "CREATE TABLE IF NOT EXISTS ask_paths (id TEXT PRIMARY KEY, path TEXT NOT NULL)",
  // Workflow orders for the runner: sent again on every connection until there is a result.
  // `epoch`: the state directory that the first copy was sent to.
  "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, frame TEXT NOT NULL, sent INTEGER NOT NULL DEFAULT 0, epoch TEXT)",
  // Cancelled runs: sent on every connection until confirmed. The row stays, to reject orders that arrive late.
  "CREATE TABLE IF NOT EXISTS cancels (execution TEXT PRIMARY KEY, answered INTEGER NOT NULL DEFAULT 0)",
  "CREATE TABLE IF NOT EXISTS rpc (request_id TEXT PRIMARY KEY, type TEXT NOT NULL, result TEXT, at INTEGER NOT NULL)",
  `CREATE TABLE IF NOT EXISTS artifacts (
    id TEXT PRIMARY KEY, mime TEXT NOT NULL, bytes INTEGER NOT NULL, description TEXT NOT NULL, at INTEGER NOT NULL,
    message_id TEXT, call_id TEXT, width INTEGER, height INTEGER)`,
  // Files that the agent showed: the same content under the same path is one artifact.
  // `moved`: its bytes are in object storage and not in a blob (artifact-moves.ts).
  `CREATE TABLE IF NOT EXISTS display_files (
    path TEXT NOT NULL, sha256 TEXT NOT NULL, id TEXT NOT NULL, moved INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (path, sha256))`,
  `CREATE TABLE IF NOT EXISTS usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL,
    output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
    cost REAL)`,
  "CREATE INDEX IF NOT EXISTS usage_message ON usage (message_id)",
  // Prompts whose end the parent session waits for (child-reports.ts).
  "CREATE TABLE IF NOT EXISTS awaited (prompt TEXT PRIMARY KEY)",
  // Prompts of chat channels that have got a reply.
  "CREATE TABLE IF NOT EXISTS chat_replies (prompt TEXT PRIMARY KEY)",
  "CREATE TABLE IF NOT EXISTS deadlines (kind TEXT NOT NULL, ref TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (kind, ref))",
]

/** An older version's table refuses the kind `approval`, and SQLite cannot change a constraint. */
const allowApprovals = (sql: Sql): void => {
  const old = sql.all(
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'interactions' AND instr(sql, 'approval') = 0",
  )
  if (old.length === 0) return
  sql.transaction(() => {
    sql.run("ALTER TABLE interactions RENAME TO old_interactions")
    sql.run("DROP INDEX IF EXISTS interactions_open")
    sql.run(INTERACTIONS)
    sql.run("INSERT INTO interactions SELECT * FROM old_interactions")
    sql.run("DROP TABLE old_interactions")
  })
}

export const migrate = (sql: Sql): void => {
  allowApprovals(sql)
  for (const statement of statements) sql.run(statement)
  addColumns(sql, [
    ["orders", "epoch", "TEXT"],
    ["artifacts", "message_id", "TEXT"],
    ["artifacts", "call_id", "TEXT"],
    ["artifacts", "width", "INTEGER"],
    ["artifacts", "height", "INTEGER"],
    ["display_files", "moved", "INTEGER NOT NULL DEFAULT 0"],
  ])
  migrateSearchIndex(sql)
  createDeliveryTable(sql)
  adoptOldRows(sql)
}

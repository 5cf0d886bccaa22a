/** The tables that all sessions of a hub share. Column names are part of the database on disk. */
import { adoptOldEffects } from "../session/adopt-old-rows.ts"
import { createDeliveryTable } from "../session/delivery-rows.ts"
import type { Sql } from "../session/ports.ts"

const statements = [
  "CREATE TABLE IF NOT EXISTS rpc (request_id TEXT PRIMARY KEY, result TEXT NOT NULL, at INTEGER NOT NULL)",
  `CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, parent TEXT, title TEXT NOT NULL, workspace TEXT NOT NULL, model TEXT,
    status TEXT NOT NULL CHECK (status IN ('running', 'ended')), created_at INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS memories (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, category TEXT NOT NULL, content TEXT NOT NULL,
    session TEXT NOT NULL, created_at INTEGER NOT NULL)`,
  "CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(content, category, tokenize = 'porter unicode61')",
  `CREATE TABLE IF NOT EXISTS tasks (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, title TEXT NOT NULL, description TEXT,
    status TEXT NOT NULL, session TEXT, created_by TEXT NOT NULL, parent TEXT, blocked_by TEXT NOT NULL DEFAULT '[]',
    result TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS mailbox (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, from_session TEXT NOT NULL, to_session TEXT,
    to_user TEXT, to_handle TEXT, type TEXT NOT NULL, content TEXT NOT NULL, context_session TEXT, context_task TEXT,
    reply_to TEXT, created_at INTEGER NOT NULL)`,
  "CREATE TABLE IF NOT EXISTS personas (slug TEXT PRIMARY KEY, content TEXT NOT NULL, updated_at INTEGER NOT NULL)",
  // Names that mail can be sent to. A handle belongs to one session.
  "CREATE TABLE IF NOT EXISTS handles (handle TEXT PRIMARY KEY, session TEXT NOT NULL)",
  `CREATE TABLE IF NOT EXISTS workflows (
    id TEXT PRIMARY KEY, slug TEXT UNIQUE NOT NULL, name TEXT NOT NULL, description TEXT, version TEXT NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1, tags TEXT NOT NULL DEFAULT '[]', data TEXT NOT NULL, hash TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS workflow_versions (
    place INTEGER PRIMARY KEY AUTOINCREMENT, workflow TEXT NOT NULL, hash TEXT NOT NULL, version TEXT NOT NULL,
    data TEXT NOT NULL, source TEXT NOT NULL, notes TEXT, session TEXT NOT NULL, at INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS proposals (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, base_hash TEXT NOT NULL, proposal TEXT NOT NULL, diff TEXT,
    execution TEXT, session TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'applied')),
    notes TEXT, expires_at TEXT, created_at INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS executions (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, hash TEXT NOT NULL, session TEXT NOT NULL, trigger_id TEXT,
    status TEXT NOT NULL CHECK (status IN ('running', 'waiting_approval', 'completed', 'failed', 'cancelled')),
    variables TEXT NOT NULL, steps TEXT NOT NULL DEFAULT '[]', output TEXT, error TEXT, approval TEXT,
    started_at INTEGER NOT NULL, ended_at INTEGER)`,
  `CREATE TABLE IF NOT EXISTS triggers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, workflow TEXT, session TEXT NOT NULL,
    enabled INTEGER NOT NULL, config TEXT NOT NULL, mapping TEXT NOT NULL, next_at INTEGER, last_at INTEGER,
    created_at INTEGER NOT NULL)`,
]

export const createSharedTables = (sql: Sql): void => {
  for (const statement of statements) sql.run(statement)
  createDeliveryTable(sql)
  adoptOldEffects(sql)
}

/** An earlier version had a table for each kind of delivery. Their rows become deliveries, and the tables are removed. */
import { addColumns } from "./add-columns.ts"
import type { Sql } from "./ports.ts"
import { hasRow } from "./rows.ts"

const COLUMNS = "INSERT OR IGNORE INTO deliveries (id, kind, lane, payload, attempts, due_at"

/** Of a session. `due_at`: at once where the old table had no time. */
const moves: Readonly<Record<string, string>> = {
  child_reports: `${COLUMNS}) SELECT id, 'child-report', 'parent', report, attempts, 0 FROM child_reports ORDER BY rowid`,
  workflow_reports: `${COLUMNS}) SELECT execution || '/' || place, 'workflow-report', 'workflow',
    json_object('execution', execution, 'envelope', json(envelope)), attempts, 0 FROM workflow_reports ORDER BY place`,
  sends: `${COLUMNS}, begun_at) SELECT id, 'chat-message', 'chat:' || channel,
    json_patch(json_object('reply', reply, 'channel', channel, 'text', text),
      iif(artifact IS NULL, '{}', json_object('image', json_object('artifact', artifact, 'mime', mime)))),
    attempts, due_at, started_at FROM sends ORDER BY place`,
}

const isTable = (sql: Sql, name: string) =>
  hasRow(sql, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name)

export const adoptOldRows = (sql: Sql): void => {
  const old = Object.keys(moves).filter((name) => isTable(sql, name))
  if (old.length === 0) return
  if (old.includes("sends")) addColumns(sql, [["sends", "started_at", "INTEGER"]])
  sql.transaction(() => {
    for (const name of old) {
      sql.run(moves[name] ?? "")
      sql.run(`DROP TABLE ${name}`)
    }
    sql.run(
      "DELETE FROM deadlines WHERE kind IN ('report', 'workflow', 'send', 'fleet', 'artifact')",
    )
    sql.run("DELETE FROM meta WHERE name = 'fleet-failures'")
  })
}

/** Of a shared store, where the kind was a part of the text. A text that cannot be read becomes a row that cannot be read. */
export const adoptOldEffects = (sql: Sql): void => {
  if (!isTable(sql, "effects")) return
  addColumns(sql, [
    ["effects", "lane", "TEXT NOT NULL DEFAULT ''"],
    ["effects", "attempts", "INTEGER NOT NULL DEFAULT 0"],
    ["effects", "due_at", "INTEGER NOT NULL DEFAULT 0"],
  ])
  sql.transaction(() => {
    sql.run(`${COLUMNS})
      SELECT id, iif(json_valid(effect), coalesce(json_extract(effect, '$.do'), ''), ''), iif(lane = '', session, lane),
        iif(json_valid(effect), json_set(effect, '$.session', session), effect), attempts, due_at FROM effects ORDER BY rowid`)
    sql.run("DROP TABLE effects")
  })
}

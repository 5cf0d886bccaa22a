/** Adds columns to tables that an older version has made. */
import type { Sql } from "./ports.ts"

type Column = readonly [table: string, column: string, type: string]

export const addColumns = (sql: Sql, columns: readonly Column[]): void => {
  for (const [table, column, type] of columns) {
    const has = sql.all(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? AND instr(sql, ?) > 0",
      table,
      ` ${column} ${type}`,
    )
    if (has.length === 0) sql.run(`ALTER TABLE ${table} ADD COLUMN ${column} ${type}`)
  }
}

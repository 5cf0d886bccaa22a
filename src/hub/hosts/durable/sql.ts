/** The session's SQL port on a Durable Object's SQLite. */
import type { Sql, SqlValue } from "../../session/ports.ts"
import type { DurableState } from "./runtime-types.ts"

export const durableSql = ({ storage }: DurableState): Sql => {
  let depth = 0
  return {
    all: <Row>(query: string, ...values: readonly SqlValue[]) =>
      storage.sql.exec(query, ...values).toArray() as Row[],
    run: (query, ...values) => void storage.sql.exec(query, ...values).toArray(),
    transaction: (work) => {
      if (depth > 0) return work()
      depth += 1
      try {
        return storage.transactionSync(work)
      } finally {
        depth -= 1
      }
    },
  }
}

export const hasTable = ({ storage }: DurableState, name: string): boolean =>
  storage.sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name).toArray()
    .length > 0

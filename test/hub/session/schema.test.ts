/** Tables of an older version. */
import { expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import { migrate } from "../../../src/hub/session/schema.ts"

test("a database of an older version keeps its questions and takes approvals", () => {
  const sql = openBunSql(":memory:")
  sql.run(`CREATE TABLE interactions (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('question', 'permission')), prompt_id TEXT,
    channel TEXT NOT NULL, payload TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'answered', 'expired')),
    answer TEXT, answered_by TEXT, at INTEGER NOT NULL)`)
  sql.run("CREATE INDEX interactions_open ON interactions (channel) WHERE status = 'open'")
  const row = (id: string, kind: string) =>
    sql.run(
      "INSERT INTO interactions VALUES (?, ?, 'p', 'c', '{}', 'open', NULL, 'ann', 7)",
      id,
      kind,
    )
  row("q", "question")
  const before = sql.all("SELECT * FROM interactions")
  migrate(sql)
  migrate(sql)
  expect(sql.all("SELECT * FROM interactions")).toEqual(before)
  row("a", "approval")
  expect(() => row("x", "other")).toThrow("CHECK")
  const named =
    "SELECT name FROM sqlite_master WHERE name IN ('interactions_open', 'old_interactions')"
  expect(sql.all(named)).toEqual([{ name: "interactions_open" }])
  sql.close()
})

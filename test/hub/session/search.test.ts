/** Search with the full-text index, and without it where the SQLite of the host lacks FTS5: both find the same. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"
import { hasSearchIndex } from "../../../src/hub/session/search-index.ts"
import { createCore } from "../kit/core.ts"

const withoutFts5 = (): Sql => {
  const sql = openBunSql(":memory:")
  return {
    ...sql,
    run: (query, ...values) => {
      if (query.includes("fts5")) throw new Error("no such module: fts5")
      sql.run(query, ...values)
    },
  }
}

/** A session whose agent has said these texts, one message each; the last one still streams. */
const sessionWith = (texts: readonly string[], sql: Sql) => {
  const core = createCore(sql)
  const first = core.connectRunner("a")
  const frames = texts.flatMap((text, index) => {
    const turn = { turnId: `t${index}`, messageId: `m${index}` }
    const said = { type: "message.part.text-delta", partId: `p${index}`, delta: text, ...turn }
    const over = { type: "message.finalize", reason: "end_turn", finalText: text, ...turn }
    return index === texts.length - 1 ? [said] : [said, over]
  })
  for (const [index, frame] of frames.entries())
    core.receive("a", { ...frame, channelType: "web", channelId: "default", seq: first + index })
  return core.session
}

test("without FTS5 the search finds any part of a text without regard to case, also in a message that streams", () => {
  const sql = withoutFts5()
  const session = sessionWith(["A HERON_x wades", "50% of 100", "another heron_X"], sql)
  expect(hasSearchIndex(sql)).toBeFalse()
  const { hits, more } = session.search("heron_x", 10)
  expect(hits.map(({ text, marks }) => marks.map(([from, to]) => text.slice(from, to)))).toEqual([
    ["heron_X"],
    ["HERON_x"],
  ])
  expect(more).toBeFalse()
  expect(session.search("50%", 10).hits).toHaveLength(1)
  expect(session.search("5_%", 10).hits).toHaveLength(0)
  expect(session.search("heron", 1)).toMatchObject({ more: true })
})

test("with and without FTS5 the search finds the same messages", () => {
  // Letters of one case each: LIKE knows the cases of ASCII only.
  const text = fc.string({ unit: fc.constantFrom("a", "b", " ", "%", "_", '"', "\\", "*", "ö") })
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), text, (texts, query) => {
      if (query === "") return
      const indexed = openBunSql(":memory:")
      const find = (sql: Sql) => {
        const said = texts.map((one) => `${one}.`)
        return sessionWith(said, sql)
          .search(query, 20)
          .hits.map(({ messageId }) => messageId)
      }
      expect(find(withoutFts5())).toEqual(find(indexed))
      expect(hasSearchIndex(indexed)).toBeTrue()
    }),
    { numRuns: 15 },
  )
})

/** The row schemas of a session: what is stored is read back, and a wrong row is refused where it is read. */
import { describe, expect, test } from "bun:test"
import { z } from "zod"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import {
  answeredRow,
  normalizePrompt,
  readConfig,
  readOrder,
  readPrompt,
  readRow,
  readRows,
} from "../../../src/hub/session/rows.ts"
import { createCore } from "../kit/core.ts"

const prompt = {
  type: "prompt",
  messageId: "p1",
  content: "look",
  attachments: [{ type: "file", mime: "image/png", url: "kept:sha256:00;data:image/png;base64," }],
} as const

describe("a stored prompt", () => {
  test("a stored prompt is read back with the references to its files", () => {
    expect(readPrompt(JSON.stringify(prompt))).toEqual({
      ...prompt,
      attachments: [...prompt.attachments],
    })
  })

  test("two prompts with the same fields in another order are equal as text after normalizing", () => {
    const { content, ...rest } = prompt
    const reordered = { content, ...rest, attachments: [...prompt.attachments] }
    expect(JSON.stringify(normalizePrompt(reordered))).toBe(
      JSON.stringify(readPrompt(JSON.stringify(prompt))),
    )
  })

  test("a stored prompt without content is refused", () => {
    expect(() => readPrompt('{"type":"prompt","messageId":"p1"}')).toThrow("content: ")
  })
})

describe("other stored JSON", () => {
  test("a config that was never stored is empty", () => {
    expect(readConfig(undefined)).toEqual({})
  })

  test("a stored order of another frame type is refused", () => {
    expect(() => readOrder('{"type":"stop"}')).toThrow("stored workflow order")
    expect(() => readOrder("{")).toThrow("stored workflow order")
  })

  test("an answer must fit the kind of its interaction", () => {
    const row = (kind: string, answer: unknown) =>
      answeredRow.safeParse({ id: "q", kind, answer: JSON.stringify(answer) }).success
    expect(row("question", "any text")).toBeTrue()
    expect(row("permission", "always")).toBeTrue()
    expect(row("permission", "any text")).toBeFalse()
    expect(row("question", 7)).toBeFalse()
  })
})

describe("reading rows", () => {
  const numbers = z.object({ n: z.number() })

  test("a query without rows reads as undefined or an empty list", () => {
    const sql = openBunSql(":memory:")
    expect(readRow(sql, numbers, "SELECT 1 AS n WHERE 0")).toBeUndefined()
    expect(readRows(sql, numbers, "SELECT 1 AS n WHERE 0")).toEqual([])
    expect(readRows(sql, numbers, "SELECT ? AS n UNION SELECT 2", 1)).toEqual([{ n: 1 }, { n: 2 }])
  })

  test("a column of another type throws", () => {
    const sql = openBunSql(":memory:")
    expect(() => readRow(sql, numbers, "SELECT 'one' AS n")).toThrow("expected number")
  })

  test("a session whose stored message is damaged throws instead of sending it to clients", () => {
    const core = createCore()
    core.session.note({ id: "n1", role: "system", content: "hello" })
    expect(core.session.recent(1)).toHaveLength(1)
    core.sql.run("UPDATE messages SET role = 'stranger'")
    expect(() => core.session.snapshot()).toThrow("role")
  })
})

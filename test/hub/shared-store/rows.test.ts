/** Reading rows of the shared store. */
import { describe, expect, test } from "bun:test"
import { executionRow, readRow, triggerRow } from "../../../src/hub/shared-store/rows.ts"

const trigger = {
  id: "t1",
  name: "nightly",
  type: "webhook",
  workflow: null,
  session: "s1",
  enabled: 1,
  config: '{"type":"webhook","secret":"hidden-value","note":"kept"}',
  mapping: "{}",
  next_at: null,
  last_at: null,
  created_at: 1,
}

describe("row of the shared store", () => {
  test("a row is read with its JSON columns parsed and its flags as booleans", () => {
    expect(readRow(triggerRow, trigger)).toMatchObject({
      enabled: true,
      config: { type: "webhook", secret: "hidden-value", note: "kept" },
      mapping: {},
    })
  })

  test.each([
    ["config", { config: "{not json" }],
    ["config.type", { config: '{"type":"hidden-value"}' }],
    ["mapping", { mapping: '["hidden-value"]' }],
    ["created_at", { created_at: "hidden-value" }],
  ])(
    "a row with an invalid %s is refused with the column and without the value",
    (column, change) => {
      const read = () => readRow(triggerRow, { ...trigger, ...change })
      expect(read).toThrow(`a row of the shared store is invalid: ${column}: `)
      expect(read).not.toThrow("hidden-value")
    },
  )

  test("a NULL in an optional JSON column is absent, and the JSON null is null", () => {
    const row = {
      id: "e1",
      workflow: "w1",
      hash: "sha256:0",
      session: "s1",
      trigger_id: null,
      status: "running",
      variables: "{}",
      steps: "[]",
      output: null,
      error: null,
      approval: null,
      started_at: 1,
      ended_at: null,
    }
    expect(readRow(executionRow, row)).toMatchObject({ output: undefined, approval: undefined })
    expect(readRow(executionRow, { ...row, output: "null" })).toMatchObject({ output: null })
  })
})

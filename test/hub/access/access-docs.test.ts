/** The rendered access table. */
import { expect, test } from "bun:test"
import { renderAccessTable } from "../../../src/hub/access/access-docs.ts"
import { scopes } from "../../../src/hub/access/scopes.ts"
import { actions } from "../../../src/hub/access/table.ts"

test("the rendered table has one row for every action", () => {
  const text = renderAccessTable()
  for (const action of actions) {
    expect(text).toContain(`| \`${action.slice(action.indexOf(":") + 1)}\` |`)
  }
  const rows = text.split("\n").filter((line) => line.startsWith("| `"))
  expect(rows.length).toBe(actions.length + scopes.length)
})

test("a rendered row names the role, the scope and the callers", () => {
  expect(renderAccessTable()).toContain(
    "| `prompt` | queue a prompt | editor | `sessions:write` | operator, person, share link |",
  )
  expect(renderAccessTable()).toContain("| `health` | `GET /health` | - | - | everybody |")
})

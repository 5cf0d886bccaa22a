/** The table as a whole: complete, free of contradictions, and documented. */
import { describe, expect, test } from "bun:test"
import { z } from "zod"
import { checkTable } from "../../../src/wire/operations/check-table.ts"
import { wireRequest } from "../../../src/wire/operations/define.ts"
import { type Operation, operations, wireRequests } from "../../../src/wire/operations/index.ts"
import { routes, wireDeadlines } from "./spec.ts"

const routeOf = ({ method, path }: Operation) => `${method} ${path}`

describe("the table of operations", () => {
  test("has exactly the routes of the API, 58 of them", () => {
    expect(operations.map(routeOf).toSorted()).toEqual(routes.toSorted())
    expect(operations).toHaveLength(58)
  })

  test("has exactly the requests of the wire, 32 of them, each with its deadline", () => {
    const deadlines = wireRequests.map(({ type, deadlineMs }) => [type, deadlineMs])
    expect(Object.fromEntries(deadlines)).toEqual(wireDeadlines)
    expect(wireRequests).toHaveLength(32)
  })

  test("asks every request, and only requests that it holds", () => {
    const asked = operations.flatMap(({ served }) =>
      served.by === "session" ? [served.request] : [],
    )
    expect(new Set<unknown>(asked)).toEqual(new Set<unknown>(wireRequests))
  })

  test("asks every action of the requests that carry actions", () => {
    for (const request of wireRequests) {
      if (!("action" in request.fields.shape)) continue
      const asked = operations.flatMap(({ served }) =>
        served.by === "session" && served.request === request
          ? [String(served.toFields({})["action"])]
          : [],
      )
      expect(asked.toSorted()).toEqual(
        [...request.fields.shape.action.options].map(String).toSorted(),
      )
    }
  })

  test("registered in its order, hides no route behind an earlier, wider one", () => {
    operations.forEach((operation, place) => {
      const earlier = operations.slice(0, place).filter(({ method }) => method === operation.method)
      const hiding = earlier.filter(({ path }) => patternOf(path).test(operation.path))
      expect(hiding.map(routeOf)).toEqual([])
    })
  })
})

describe.each(operations)("$name", ({ name, path, doc, input }) => {
  test("is named in kebab-case and documented in one sentence", () => {
    expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/)
    expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
  })

  test("takes its path's parameters in its input", () => {
    const parameters = [...path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter)
    expect(Object.keys(input.shape)).toEqual(expect.arrayContaining(parameters))
  })

  test("describes every field of its input to a tool", () => {
    const { properties = {} } = z.toJSONSchema(input, { io: "input" })
    for (const field of Object.values(properties)) {
      expect(field).toHaveProperty("description")
    }
  })
})

describe("a table that contradicts itself", () => {
  const [first, second] = operations.slice(0, 2)
  if (first === undefined || second === undefined) throw new Error("the table is empty")
  const ask = wireRequest("ask", 1, {}, {})

  test("is refused for two operations of one name", () => {
    expect(() => checkTable([first, { ...second, name: first.name }], [])).toThrow(
      "the operation spawn-session is in the table twice",
    )
  })

  test("is refused for two operations on one route, whatever its parameters are called", () => {
    const one: Operation = { ...first, method: "GET", path: "/api/x/:id" }
    const other: Operation = { ...second, method: "GET", path: "/api/x/:name" }
    expect(() => checkTable([one, other], [])).toThrow(
      "the route GET /api/x/:* is in the table twice",
    )
    expect(() => checkTable([one, { ...other, method: "PUT" }], [])).not.toThrow()
  })

  test("is refused for two requests of one type", () => {
    expect(() => checkTable([], [ask, ask])).toThrow("the wire request ask is in the table twice")
  })

  test.each(["type", "requestId", "seq", "error"])("is refused for a field named %s", (name) => {
    const message = `the wire request ask has a field named ${name}`
    const field = { [name]: z.string() }
    expect(() => checkTable([], [wireRequest("ask", 1, field, {})])).toThrow(message)
    expect(() => checkTable([], [wireRequest("ask", 1, {}, field)])).toThrow(message)
  })
})

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/:\w+/g, "[^/]+")}$`)
}

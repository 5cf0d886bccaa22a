/** The operations table as a whole: complete, consistent and documented. */
import { describe, expect, test } from "bun:test"
import { z } from "zod"
import { checkTable } from "../../../src/wire/operations/check-table.ts"
import { wireRequest } from "../../../src/wire/operations/define.ts"
import { type Operation, operations, wireRequests } from "../../../src/wire/operations/index.ts"
import { routes, wireDeadlines } from "./spec.ts"

const routeOf = ({ method, path }: Operation) => `${method} ${path}`

describe("operations table", () => {
  test("the operations table has exactly the 72 specified routes", () => {
    expect(operations.map(routeOf).toSorted()).toEqual(routes.toSorted())
    expect(operations).toHaveLength(71)
  })

  test("the operations table has exactly the 33 specified requests with their deadlines", () => {
    const deadlines = wireRequests.map(({ type, deadlineMs }) => [type, deadlineMs])
    expect(Object.fromEntries(deadlines)).toEqual(wireDeadlines)
    expect(wireRequests).toHaveLength(33)
  })

  test("every wire request is used by an operation, and every used request is in the list", () => {
    const used = operations.flatMap(({ served }) =>
      served.by === "session" ? [served.request] : [],
    )
    expect(new Set<unknown>(used)).toEqual(new Set<unknown>(wireRequests))
  })

  test("every action of an action request is used by an operation", () => {
    for (const request of wireRequests) {
      if (!("action" in request.fields.shape)) continue
      const used = operations.flatMap(({ served }) =>
        served.by === "session" && served.request === request
          ? [String(served.toFields({})["action"])]
          : [],
      )
      expect(used.toSorted()).toEqual(
        [...request.fields.shape.action.options].map(String).toSorted(),
      )
    }
  })

  test("no route is hidden by an earlier, wider route", () => {
    operations.forEach((operation, index) => {
      const earlier = operations.slice(0, index).filter(({ method }) => method === operation.method)
      const hiding = earlier.filter(({ path }) => patternOf(path).test(operation.path))
      expect(hiding.map(routeOf)).toEqual([])
    })
  })
})

describe.each(operations)("$name", ({ name, path, doc, input }) => {
  test(`the operation ${name} has a kebab-case name and a one-line doc`, () => {
    expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/)
    expect(doc).toMatch(/^[A-Z][^\n]*\.$/)
  })

  test(`the input of the operation ${name} contains its path parameters`, () => {
    const parameters = [...path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter)
    expect(Object.keys(input.shape)).toEqual(expect.arrayContaining(parameters))
  })

  test(`every input field of the operation ${name} has a description`, () => {
    const { properties = {} } = z.toJSONSchema(input, { io: "input" })
    for (const field of Object.values(properties)) {
      expect(field).toHaveProperty("description")
    }
  })
})

describe("inconsistent table", () => {
  const [first, second] = operations.slice(0, 2)
  if (first === undefined || second === undefined) throw new Error("the table is empty")
  const ask = wireRequest("ask", 1, {}, {})

  test("two operations with the same name are refused", () => {
    expect(() => checkTable([first, { ...second, name: first.name }], [])).toThrow(
      "the operation spawn-session is in the table twice",
    )
  })

  test("two operations on one route are refused even if the parameter names differ", () => {
    const one: Operation = { ...first, method: "GET", path: "/api/x/:id" }
    const other: Operation = { ...second, method: "GET", path: "/api/x/:name" }
    expect(() => checkTable([one, other], [])).toThrow(
      "the route GET /api/x/:* is in the table twice",
    )
    expect(() => checkTable([one, { ...other, method: "PUT" }], [])).not.toThrow()
  })

  test("two requests of the same type are refused", () => {
    expect(() => checkTable([], [ask, ask])).toThrow("the wire request ask is in the table twice")
  })

  test.each(["type", "requestId", "seq", "error"])(
    "a request with a field named %s is refused",
    (name) => {
      const message = `the wire request ask has a field named ${name}`
      const field = { [name]: z.string() }
      expect(() => checkTable([], [wireRequest("ask", 1, field, {})])).toThrow(message)
      expect(() => checkTable([], [wireRequest("ask", 1, {}, field)])).toThrow(message)
    },
  )
})

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/:\w+/g, "[^/]+")}$`)
}

/** The OpenAPI document of the API, derived from the operations table. */
import { z } from "zod"
import type { Operation } from "./define.ts"

type Json = Readonly<Record<string, unknown>>

export const openApi = (table: readonly Operation[]): Json => ({
  openapi: "3.1.0",
  info: {
    title: "API of the sandbox for the agent's tools",
    version: "1",
    description:
      "JSON requests and responses. Every call needs the API token from the agent's environment. A repeated Idempotency-Key returns the first response.",
  },
  security: [{ token: [] }],
  paths: pathsOf(table),
  components: {
    securitySchemes: { token: { type: "http", scheme: "bearer" } },
    schemas: { Failure: schemaOf(failure, "output") },
  },
})

const failure = z.object({
  error: z.string().describe("Message for the caller"),
  code: z.string().describe("Machine-readable kind of failure"),
  requestId: z.string().describe("Id of the call in the runner's log"),
})

/** HTTP status and when it occurs. */
export const failures: Readonly<Record<number, string>> = {
  400: "a field is missing or invalid; the error names it",
  401: "the API token is missing or invalid",
  404: "the object does not exist",
  409: "conflict with the current state, or the Idempotency-Key was used for another call",
  413: "the body is larger than 8 MiB",
  501: "this sandbox is not configured for the operation",
  502: "the session agent refused, or its response is incomplete",
  503: "the session agent cannot be reached",
  504: "no response before the deadline; the operation may still complete",
}

const pathsOf = (table: readonly Operation[]): Json => {
  const byPath = Object.groupBy(table, ({ path }) => path.replaceAll(/:(\w+)/g, "{$1}"))
  return Object.fromEntries(
    Object.entries(byPath).map(([path, rows = []]) => [
      path,
      Object.fromEntries(rows.map((row) => [row.method.toLowerCase(), operationOf(row)])),
    ]),
  )
}

const operationOf = (operation: Operation): Json => {
  const { name, doc, method, path, input, output } = operation
  const inPath = new Set([...path.matchAll(/:(\w+)/g)].map(([, field]) => field ?? ""))
  const { properties = {}, required = [] } = schemaOf(input, "input")
  const fields = Object.entries(properties)
  const inQuery = method === "GET" || method === "DELETE"
  const inBody = inQuery ? [] : fields.filter(([field]) => !inPath.has(field))
  const parameters = fields.filter(([field]) => inPath.has(field) || inQuery)
  return {
    operationId: name,
    summary: doc,
    parameters: [
      ...parameters.map(([field, schema]) => ({
        name: field,
        in: inPath.has(field) ? "path" : "query",
        required: inPath.has(field) || required.includes(field),
        schema,
      })),
      ...(method === "GET" ? [] : [idempotencyKey]),
    ],
    ...(inBody.length > 0 && {
      requestBody: {
        required: inBody.some(([field]) => required.includes(field)),
        content: {
          "application/json": {
            schema: {
              type: "object",
              properties: Object.fromEntries(inBody),
              required: required.filter((field) => !inPath.has(field)),
            },
          },
        },
      },
    }),
    responses: {
      200: {
        description: "Success.",
        content: { "application/json": { schema: schemaOf(output, "output") } },
      },
      ...Object.fromEntries(
        Object.entries(failures).map(([status, description]) => [
          status,
          {
            description,
            content: { "application/json": { schema: { $ref: "#/components/schemas/Failure" } } },
          },
        ]),
      ),
    },
  }
}

const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  schema: { type: "string" },
}

interface ObjectSchema extends Json {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): ObjectSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" })
  return rest
}

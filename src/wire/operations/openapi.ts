/** The API as an OpenAPI document, computed from the table. */
import { z } from "zod"
import type { Operation } from "./define.ts"

type Json = Readonly<Record<string, unknown>>

export const openApi = (table: readonly Operation[]): Json => ({
  openapi: "3.1.0",
  info: {
    title: "The sandbox's API for the agent's tools",
    version: "1",
    description:
      "JSON in, JSON out. Every call needs the API token of the agent's environment. A call with an Idempotency-Key that was answered before gets the first answer.",
  },
  security: [{ token: [] }],
  paths: pathsOf(table),
  components: {
    securitySchemes: { token: { type: "http", scheme: "bearer" } },
    schemas: { Failure: schemaOf(failure, "output") },
  },
})

const failure = z.object({
  error: z.string().describe("What is wrong, for the caller to read"),
  code: z.string().describe("What kind of failure it is"),
  requestId: z.string().describe("Names the call in the runner's log"),
})

/** What can go wrong and with which status, by where the operation is carried out. */
export const failures: Readonly<Record<number, string>> = {
  400: "a field is missing or wrong; the error names it",
  401: "the API token is missing or wrong",
  404: "there is no such thing",
  409: "it contradicts what is there, or the Idempotency-Key was used for another call",
  413: "the body is larger than 8 MiB",
  501: "this sandbox is not set up for it",
  502: "the session agent refused, or its answer lacks something",
  503: "the session agent cannot be reached",
  504: "there was no answer in time; it may still be carried out",
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
        description: "Done.",
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

/** Function declarations below constants: the table of failures is made when the module loads. */
function schemaOf(schema: z.ZodType, io: "input" | "output"): ObjectSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" })
  return rest
}

/** docs/api.md: every operation as its route. */
import type { Operation } from "../../src/wire/operations/index.ts"
import { toolsOf } from "../../src/wire/operations/index.ts"
import { failures } from "../../src/wire/operations/openapi.ts"
import { briefly, fieldsOf, heading, table } from "./markdown.ts"

export const renderApi = (operations: readonly Operation[]): string =>
  `${[
    heading("The API of the agent's tools", intro(operations.length), "`src/operations`"),
    table(
      ["route", "in", "out", "carried out by", "tools"],
      operations.map((operation) => [
        `\`${operation.method} ${operation.path}\` ${operation.doc}`,
        briefly(fieldsOf(operation.input, "input")),
        replyOf(operation),
        carrierOf(operation),
        toolNames(operation),
      ]),
    ),
    "## What can go wrong",
    table(
      ["status", "when"],
      Object.entries(failures).map(([status, when]) => [status, when]),
    ),
  ].join("\n\n")}\n`

const intro = (
  count: number,
) => `${count} operations below \`/api\` on the gateway's port, for whoever has the API token that the agent's
environment carries (\`SANDPIPER_API_TOKEN\`, as a bearer token). JSON in, JSON out. A path's parameters, the query and the
body are one object of fields. The same as an OpenAPI document: \`GET /api/openapi.json\`.

Headers of every call from a tool: \`x-opencode-session-id\`, \`x-opencode-message-id\` and \`x-opencode-call-id\` say which
conversation it belongs to. \`Idempotency-Key\` on anything but a GET: a repeated call gets the first answer and is not
done again; it is remembered for ten minutes.

A failure is \`{error, code, requestId}\`; \`requestId\` is in the runner's log.`

const replyOf = ({ output }: Operation): string => {
  const fields = fieldsOf(output, "output")
  return fields.length === 0 ? "the data" : briefly(fields)
}

const carrierOf = ({ served }: Operation): string => {
  switch (served.by) {
    case "session":
      return `session agent, \`${served.request.type}\`, ${served.request.deadlineMs / 1000} s`
    case "frame":
      return `told to it, \`${served.frame}\``
    case "sandbox":
      return `the sandbox (${served.part})`
  }
}

const toolNames = (operation: Operation): string => {
  const names = toolsOf(operation).map(({ name }) => `\`${name}\``)
  if (names.length > 0) return names.join(", ")
  return "none" in operation.tools ? `none: ${operation.tools.none}` : "none"
}

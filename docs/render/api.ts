/** Renders docs/api.md: every operation with its route. */
import type { Operation } from "../../src/wire/operations/index.ts"
import { toolsOf } from "../../src/wire/operations/index.ts"
import { failures } from "../../src/wire/operations/openapi.ts"
import { fieldNames, fieldsOf, heading, table } from "./markdown.ts"

export const renderApi = (operations: readonly Operation[]): string =>
  `${[
    heading("API for the agent's tools", intro(operations.length), "`src/wire/operations`"),
    table(
      ["route", "request", "response", "carried out by", "tools"],
      operations.map((operation) => [
        `\`${operation.method} ${operation.path}\` ${operation.doc}`,
        fieldNames(fieldsOf(operation.input, "input")),
        replyOf(operation),
        carrierOf(operation),
        toolNames(operation),
      ]),
    ),
    "## Errors",
    table(
      ["status", "when"],
      Object.entries(failures).map(([status, when]) => [status, when]),
    ),
  ].join("\n\n")}\n`

const intro = (
  count: number,
) => `${count} operations under \`/api\` on the gateway's port. Every call needs the API token as a bearer token; the agent's
environment has it in \`SANDPIPER_API_TOKEN\`. Requests and responses are JSON. Path parameters, query and body form one
object of fields. \`GET /api/openapi.json\` returns the same as an OpenAPI document.

The headers \`x-opencode-session-id\`, \`x-opencode-message-id\` and \`x-opencode-call-id\` assign a call to its conversation.
A call with the \`Idempotency-Key\` of an earlier call returns the earlier response and changes nothing. Keys are kept for
ten minutes; GET ignores them.

An error response is \`{error, code, requestId}\`. The runner's log contains the \`requestId\`.

Example:

\`\`\`bash
curl -H "Authorization: Bearer $SANDPIPER_API_TOKEN" "$SANDPIPER_URL/api/tunnels"
\`\`\``

const replyOf = ({ output }: Operation): string => {
  const fields = fieldsOf(output, "output")
  return fields.length === 0 ? "any JSON" : fieldNames(fields)
}

const carrierOf = ({ served }: Operation): string => {
  switch (served.by) {
    case "session":
      return `session agent, \`${served.request.type}\`, ${served.request.deadlineMs / 1000} s`
    case "frame":
      return `frame to the session agent, \`${served.frame}\``
    case "sandbox":
      return "sandbox"
  }
}

const toolNames = (operation: Operation): string => {
  const names = toolsOf(operation).map(({ name }) => `\`${name}\``)
  if (names.length > 0) return names.join(", ")
  return "none" in operation.tools ? `none: ${operation.tools.none}` : "none"
}

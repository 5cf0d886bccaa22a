/** docs/protocol.md: every frame of the link. */
import { z } from "zod"
import { wireRequests } from "../../src/wire/operations/index.ts"
import { inboundMessages, outboundMessages } from "../../src/wire/frames/index.ts"
import { briefly, fieldsOf, heading, table } from "./markdown.ts"

interface Row {
  readonly type: string
  readonly doc: string
  readonly schema: z.ZodType
}

export const renderProtocol = (): string => {
  const requests = new Set<string>(wireRequests.map(({ type }) => type))
  const results = new Set([...requests].map((type) => `${type}-result`))
  return `${[
    heading("The link's frames", intro, "`src/protocol` and `src/operations`"),
    "## From the session agent",
    frameTable(
      inboundMessages.filter(({ type }) => !results.has(type)),
      ["type"],
    ),
    "## From the runner",
    frameTable(
      outboundMessages.filter(({ type }) => !requests.has(type)),
      ["type", "seq"],
    ),
    "## Requests of the runner",
    "Answered by `<type>-result` with the same `requestId`, and either the result's fields or `error`. `opencodeSessionId` names the agent session whose tool asks.",
    table(
      ["request", "fields", "result", "limit"],
      wireRequests.map(({ type, fields, result, deadlineMs }) => [
        `\`${type}\``,
        briefly(fieldsOf(fields, "output")),
        briefly(fieldsOf(result, "output")),
        `${deadlineMs / 1000} s`,
      ]),
    ),
  ].join("\n\n")}\n`
}

const intro = `JSON text frames over one WebSocket. \`seq\` numbers what the runner says once the session agent has said
\`welcome\`; without one nothing is numbered and the rest is the same. \`?\` marks what may be absent.`

const frameTable = (rows: readonly Row[], leftOut: readonly string[]): string =>
  table(
    ["type", "fields", "meaning"],
    rows.map(({ type, doc, schema }) => [
      `\`${type}\``,
      briefly(fieldsOf(schema, "output").filter(({ name }) => !leftOut.includes(name))),
      doc,
    ]),
  )

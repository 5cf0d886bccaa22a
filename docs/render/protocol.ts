/** Renders docs/protocol.md: every frame of the link. */
import { z } from "zod"
import { ownRequests } from "../../src/wire/frames/own-requests.ts"
import { wireRequests } from "../../src/wire/operations/index.ts"
import { inboundMessages, outboundMessages } from "../../src/wire/frames/index.ts"
import { fieldNames, fieldsOf, heading, table } from "./markdown.ts"

interface Row {
  readonly type: string
  readonly doc: string
  readonly schema: z.ZodType
}

const allRequests = [...wireRequests, ...ownRequests]

export const renderProtocol = (): string => {
  const requests = new Set<string>(allRequests.map(({ type }) => type))
  const results = new Set([...requests].map((type) => `${type}-result`))
  return `${[
    heading("Frames of the link", intro, "`src/wire/frames` and `src/wire/operations`"),
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
    "The response is `<type>-result` with the same `requestId` and either the fields of the result or `error`. `opencodeSessionId` is the agent session whose tool sent the request.",
    table(
      ["request", "fields", "result", "deadline"],
      allRequests.map(({ type, fields, result, deadlineMs }) => [
        `\`${type}\``,
        fieldNames(fieldsOf(fields, "output")),
        fieldNames(fieldsOf(result, "output")),
        `${deadlineMs / 1000} s`,
      ]),
    ),
  ].join("\n\n")}\n`
}

const intro = `JSON text frames over one WebSocket. The runner numbers its frames with \`seq\` after the session agent has sent
\`welcome\`; without \`welcome\` the frames have no \`seq\`. \`?\` marks an optional field.`

const frameTable = (rows: readonly Row[], hiddenFields: readonly string[]): string =>
  table(
    ["type", "fields", "meaning"],
    rows.map(({ type, doc, schema }) => [
      `\`${type}\``,
      fieldNames(fieldsOf(schema, "output").filter(({ name }) => !hiddenFields.includes(name))),
      doc,
    ]),
  )

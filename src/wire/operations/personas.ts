/** Personas that a session can be started with. */
import { z } from "zod"
import { same, sessionOperation, wireRequest } from "./define.ts"
import { entity, nothing } from "./fields.ts"
import { listed } from "./render.ts"

const listPersonas = wireRequest("list-personas", 15_000, {}, { personas: z.array(entity) })

export const requests = [listPersonas] as const

export const operations = [
  sessionOperation({
    name: "list-personas",
    method: "GET",
    path: "/api/personas",
    doc: "List the personas.",
    tools: [
      {
        name: "list_personas",
        description: "List the personas that a session can be started with.",
        render: ({ personas }) => listed(personas, "persona", "personas"),
      },
    ],
    input: nothing,
    output: listPersonas.result,
    request: listPersonas,
    toFields: same,
    toReply: same,
  }),
] as const

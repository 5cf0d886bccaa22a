/** Personas that a session can be started with. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, noInput } from "./fields.ts"
import { renderList } from "./render.ts"

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
        description: "List the personas that spawn_session can give a child session.",
        render: ({ personas }) => renderList(personas, "persona", "personas"),
      },
    ],
    input: noInput,
    output: listPersonas.result,
    request: listPersonas,
    toFields: unchanged,
    toReply: unchanged,
  }),
] as const

/** What the sessions of a user remember from one to the next. */
import { z } from "zod"
import { same, sessionOperation, wireRequest } from "./define.ts"
import { entity, queryNumber, success, text } from "./fields.ts"
import { idOf, listed } from "./render.ts"

const memoryRead = wireRequest(
  "memory-read",
  15_000,
  {
    category: z.string().optional(),
    query: z.string().optional(),
    limit: z.int().optional(),
  },
  { memories: z.array(entity) },
)

const memoryWrite = wireRequest(
  "memory-write",
  15_000,
  { content: z.string(), category: z.string() },
  { memory: entity, success: z.boolean() },
)

const memoryDelete = wireRequest(
  "memory-delete",
  15_000,
  { memoryId: z.string() },
  { success: z.boolean() },
)

export const requests = [memoryRead, memoryWrite, memoryDelete] as const

export const operations = [
  sessionOperation({
    name: "memory-read",
    method: "GET",
    path: "/api/memories",
    doc: "Look up what was remembered.",
    tools: [
      {
        name: "memory_read",
        description:
          "Look up what was remembered in earlier sessions. Do this before you ask the user something they may have said already.",
        render: ({ memories }) => listed(memories, "memory", "memories"),
      },
    ],
    input: z.object({
      category: text("Only memories of this category").optional(),
      query: text("Words to look for").optional(),
      limit: queryNumber("How many at most", { min: 1 }).optional(),
    }),
    output: memoryRead.result,
    request: memoryRead,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "memory-write",
    method: "POST",
    path: "/api/memories",
    doc: "Remember something for later sessions.",
    tools: [
      {
        name: "memory_write",
        description:
          "Remember something for later sessions: a preference, a decision, a fact about the project. One fact each, in a full sentence. Never a secret.",
        render: ({ memory }) => `Remembered${idOf(memory)}.`,
      },
    ],
    input: z.object({
      content: text("What to remember"),
      category: text("What kind of memory it is"),
    }),
    output: memoryWrite.result,
    request: memoryWrite,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "memory-delete",
    method: "DELETE",
    path: "/api/memories/:id",
    doc: "Forget one memory.",
    tools: [
      {
        name: "memory_delete",
        description: "Forget one memory, by the id that memory_read gives.",
        render: () => "The memory is deleted.",
      },
    ],
    input: z.object({ id: text("The memory to forget") }),
    output: success,
    request: memoryDelete,
    toFields: ({ id }) => ({ memoryId: id }),
    toReply: same,
  }),
] as const

/** Memories: facts stored for later sessions. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, queryNumber, success, text } from "./fields.ts"
import { asId, renderList } from "./render.ts"

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
    doc: "Search the memories.",
    tools: [
      {
        name: "memory_read",
        description: "Search memories from earlier sessions.",
        render: ({ memories }) => renderList(memories, "memory", "memories"),
      },
    ],
    input: z.object({
      category: text("Only memories of this category").optional(),
      query: text("Search words; any of them matches").optional(),
      limit: queryNumber("Maximum number", { min: 1 }).optional(),
    }),
    output: memoryRead.result,
    request: memoryRead,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "memory-write",
    method: "POST",
    path: "/api/memories",
    doc: "Store a memory for later sessions.",
    tools: [
      {
        name: "memory_write",
        description:
          "Store a preference, decision or project fact for later sessions: one fact, as a full sentence.",
        render: ({ memory }) => `Stored${asId(memory)}.`,
      },
    ],
    input: z.object({
      content: text("The fact"),
      category: text("Category, such as preferences"),
    }),
    output: memoryWrite.result,
    request: memoryWrite,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "memory-delete",
    method: "DELETE",
    path: "/api/memories/:id",
    doc: "Delete a memory.",
    tools: [
      {
        name: "memory_delete",
        description: "Delete a memory by its id from memory_read.",
        render: () => "The memory is deleted.",
      },
    ],
    input: z.object({ id: text("Id of the memory") }),
    output: success,
    request: memoryDelete,
    toFields: ({ id }) => ({ memoryId: id }),
    toReply: unchanged,
  }),
] as const

/** The task board that all sessions share. */
import { z } from "zod"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, prose, queryNumber, text, texts } from "./fields.ts"
import { renderList, renderValue } from "./render.ts"

const one = { task: entity }
const many = { tasks: z.array(entity) }

const taskCreate = wireRequest(
  "task-create",
  15_000,
  {
    title: z.string(),
    description: z.string().optional(),
    sessionId: z.string().optional(),
    parentTaskId: z.string().optional(),
    blockedBy: z.array(z.string()).optional(),
  },
  one,
)

const taskList = wireRequest(
  "task-list",
  15_000,
  { status: z.string().optional(), limit: z.int().optional() },
  many,
)

const taskUpdate = wireRequest(
  "task-update",
  15_000,
  {
    taskId: z.string(),
    status: z.string().optional(),
    result: z.string().optional(),
    description: z.string().optional(),
    sessionId: z.string().optional(),
    title: z.string().optional(),
  },
  one,
)

const taskMy = wireRequest("task-my", 15_000, { status: z.string().optional() }, many)

export const requests = [taskCreate, taskList, taskUpdate, taskMy] as const

const onlyStatus = text("Only tasks with this status").optional()

export const operations = [
  sessionOperation({
    name: "task-create",
    method: "POST",
    path: "/api/tasks",
    doc: "Create a task on the shared board.",
    tools: [
      {
        name: "task_create",
        description: "Create a task on the board that all sessions share.",
        render: ({ task }) => `Created.\n${renderValue(task)}`,
      },
    ],
    input: z.object({
      title: text("Title"),
      description: prose("Description").optional(),
      session_id: text("Session that does it").optional(),
      parent_task_id: text("Parent task").optional(),
      blocked_by: texts("Ids of tasks that must be completed first").optional(),
    }),
    output: taskCreate.result,
    request: taskCreate,
    toFields: (input) => ({
      title: input.title,
      description: input.description,
      sessionId: input.session_id,
      parentTaskId: input.parent_task_id,
      blockedBy: input.blocked_by,
    }),
    toReply: unchanged,
  }),
  sessionOperation({
    name: "task-list",
    method: "GET",
    path: "/api/tasks",
    doc: "List the tasks on the shared board.",
    tools: [
      {
        name: "task_list",
        description: "List the tasks on the shared board.",
        render: ({ tasks }) => renderList(tasks, "task", "tasks"),
      },
    ],
    input: z.object({
      status: onlyStatus,
      limit: queryNumber("Maximum number", { min: 1 }).optional(),
    }),
    output: taskList.result,
    request: taskList,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "task-update",
    method: "PUT",
    path: "/api/tasks/:id",
    doc: "Change a task; absent fields keep their value.",
    tools: [
      {
        name: "task_update",
        description: "Change a task: status, result, session, title or description.",
        render: ({ task }) => `Saved.\n${renderValue(task)}`,
      },
    ],
    input: z.object({
      id: text("Id of the task"),
      status: text("New status, such as in_progress or completed").optional(),
      result: prose("Result").optional(),
      description: prose("Description").optional(),
      session_id: text("Session that does it").optional(),
      title: text("Title").optional(),
    }),
    output: taskUpdate.result,
    request: taskUpdate,
    toFields: ({ id, session_id, ...rest }) => ({ taskId: id, sessionId: session_id, ...rest }),
    toReply: unchanged,
  }),
  sessionOperation({
    name: "my-tasks",
    method: "GET",
    path: "/api/my-tasks",
    doc: "List the tasks assigned to this session.",
    tools: [
      {
        name: "my_tasks",
        description: "List the tasks assigned to this session.",
        render: ({ tasks }) => renderList(tasks, "task", "tasks"),
      },
    ],
    input: z.object({ status: onlyStatus }),
    output: taskMy.result,
    request: taskMy,
    toFields: unchanged,
    toReply: unchanged,
  }),
] as const

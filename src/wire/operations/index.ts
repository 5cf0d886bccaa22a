/** The operations table: every operation that a tool may call, and the wire requests they use. */
import * as channels from "./channels.ts"
import type { Operation, WireRequest } from "./define.ts"
import * as executions from "./executions.ts"
import * as images from "./images.ts"
import * as mailbox from "./mailbox.ts"
import * as memories from "./memories.ts"
import * as personas from "./personas.ts"
import * as pullRequests from "./pull-requests.ts"
import * as repos from "./repos.ts"
import * as secrets from "./secrets.ts"
import * as sessionMessages from "./session-messages.ts"
import * as sessions from "./sessions.ts"
import * as tasks from "./tasks.ts"
import * as triggers from "./triggers.ts"
import * as tunnels from "./tunnels.ts"
import { checkTable } from "./check-table.ts"
import * as workflowVersions from "./workflow-versions.ts"
import * as workflows from "./workflows.ts"

export { toolsOf } from "./define.ts"
export type { Method, Operation, Served, ToolRow, WireRequest } from "./define.ts"

const table = [
  ...sessions.operations,
  ...sessionMessages.operations,
  ...pullRequests.operations,
  ...repos.operations,
  ...memories.operations,
  ...workflows.operations,
  ...workflowVersions.operations,
  ...triggers.operations,
  ...executions.operations,
  ...mailbox.operations,
  ...tasks.operations,
  ...personas.operations,
  ...channels.operations,
  ...images.operations,
  ...tunnels.operations,
  ...secrets.operations,
] as const

/**
 * Exact routes come before wider ones (`/api/workflows/executions` before `/api/workflows/:id`), because the router
 * takes the first match.
 */
export const operations: readonly Operation[] = table

export type OperationName = (typeof table)[number]["name"]

/** A tuple, because the types of request and result frames are computed from it. */
export const wireRequests = [
  ...sessions.requests,
  ...sessionMessages.requests,
  ...pullRequests.requests,
  ...repos.requests,
  ...memories.requests,
  ...workflows.requests,
  ...triggers.requests,
  ...executions.requests,
  ...mailbox.requests,
  ...tasks.requests,
  ...personas.requests,
  ...channels.requests,
] as const satisfies readonly WireRequest[]

checkTable(operations, wireRequests)

/** The operations table: every operation that a tool may call, and the wire requests they use. */
import type { z } from "zod"
import * as channels from "./channels.ts"
import type { Operation, WireRequest } from "./define.ts"
import * as envFiles from "./env-files.ts"
import * as executions from "./executions.ts"
import * as images from "./images.ts"
import * as mailbox from "./mailbox.ts"
import * as memories from "./memories.ts"
import * as personas from "./personas.ts"
import * as pullRequests from "./pull-requests.ts"
import * as repos from "./repos.ts"
import * as secrets from "./secrets.ts"
import * as services from "./services.ts"
import * as sessionMessages from "./session-messages.ts"
import * as sessions from "./sessions.ts"
import * as setup from "./setup.ts"
import * as tasks from "./tasks.ts"
import * as triggers from "./triggers.ts"
import * as tunnels from "./tunnels.ts"
import { checkTable } from "./check-table.ts"
import * as workspace from "./workspace.ts"
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
  ...services.operations,
  ...envFiles.operations,
  ...setup.operations,
  ...workspace.operations,
] as const

/**
 * Exact routes come before wider ones (`/api/workflows/executions` before `/api/workflows/:id`), because the router
 * takes the first match.
 */
export const operations: readonly Operation[] = table

type Row = (typeof table)[number]
export type OperationName = Row["name"]

type SandboxRow = Extract<Row, { readonly served: { readonly by: "sandbox" } }>
type SandboxRows = { readonly [Entry in SandboxRow as Entry["name"]]: Entry }
export type SandboxOperationName = keyof SandboxRows
export type InputOf<Name extends SandboxOperationName> = z.output<SandboxRows[Name]["input"]>
export type OutputOf<Name extends SandboxOperationName> = z.output<SandboxRows[Name]["output"]>

/** A handler for every operation that the sandbox carries out itself. */
export type SandboxHandlers = {
  readonly [Name in SandboxOperationName]: (input: InputOf<Name>) => Promise<OutputOf<Name>>
}

export const isSandboxOperation = (name: string): name is SandboxOperationName =>
  operations.some((row) => row.name === name && row.served.by === "sandbox")

/** The schemas of one row, with types that depend on its name. */
export interface SandboxSchemas<Name extends SandboxOperationName> {
  readonly input: { readonly parse: (value: unknown) => InputOf<Name> }
  readonly output: { readonly parse: (value: unknown) => OutputOf<Name> }
}

/** A type predicate, because a search cannot show the compiler that the name decides the row. */
export const sandboxSchemas = <Name extends SandboxOperationName>(
  name: Name,
): SandboxSchemas<Name> => {
  const found = table.find((row): row is Row & SandboxSchemas<Name> => row.name === name)
  if (found === undefined) throw new Error(`the operation ${name} is not in the table`)
  return found
}

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
  ...workspace.requests,
] as const satisfies readonly WireRequest[]

checkTable(operations, wireRequests)

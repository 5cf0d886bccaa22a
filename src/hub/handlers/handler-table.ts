/** Who answers which request. Computed from the operations table: a request that nobody answers does not compile. */
import type {
  RequestFields,
  RequestFrame,
  RequestResult,
  RequestType,
} from "../../wire/frames/index.ts"

export interface Asker {
  readonly session: string
  readonly requestId: string
}

/** Something that cannot be done; its message is for whoever asked. */
export class Refusal extends Error {
  override readonly name = "Refusal"
}

/** Answered out of tables alone, in one transaction with the note that it was answered. */
export type TableType =
  | "memory-read"
  | "memory-write"
  | "memory-delete"
  | "task-create"
  | "task-list"
  | "task-update"
  | "task-my"
  | "mailbox-send"
  | "mailbox-check"
  | "workflow-list"
  | "workflow-sync"
  | "workflow-run"
  | "workflow-executions"
  | "workflow-api"
  | "trigger-api"
  | "execution-api"

/** Everything else needs the world outside: other sessions, processes, a git host. */
export type OutsideType = Exclude<RequestType, TableType>

export type TableHandlers = {
  readonly [Type in TableType]: (fields: RequestFields<Type>, asker: Asker) => RequestResult<Type>
}

export type OutsideHandlers = {
  readonly [Type in OutsideType]: (
    fields: RequestFields<Type>,
    asker: Asker,
  ) => Promise<RequestResult<Type>>
}

export const answerOutside = (
  handlers: OutsideHandlers,
  frame: RequestFrame<OutsideType>,
  asker: Asker,
): Promise<Record<string, unknown>> => {
  const run: (fields: never, asker: Asker) => Promise<Record<string, unknown>> =
    handlers[frame.type]
  return run(frame as never, asker)
}

export const answerFromTables = (
  handlers: TableHandlers,
  frame: RequestFrame<TableType>,
  asker: Asker,
): Record<string, unknown> => {
  const run: (fields: never, asker: Asker) => Record<string, unknown> = handlers[frame.type]
  return run(frame as never, asker)
}

export const isTableRequest = (
  handlers: TableHandlers,
  frame: RequestFrame,
): frame is RequestFrame<TableType> => Object.hasOwn(handlers, frame.type)

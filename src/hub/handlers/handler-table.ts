/**
 * Which handler answers which request of the runner. The types come from the operations table: a request without a
 * handler does not compile.
 */
import { digestOf } from "../../lib/digest.ts"
import type { MailReader } from "../access/mail-reader.ts"
import type {
  RequestFields,
  RequestFrame,
  RequestResult,
  RequestType,
} from "../../wire/frames/index.ts"

/** The session that sent a request, and the request's id. */
export interface Caller {
  readonly session: string
  readonly requestId: string
}

/** A caller of the shared store, and whose mail it reads. */
export interface StoreCaller extends Caller {
  readonly reader: MailReader
}

/** One name for a request of a session: the runner chooses `requestId`, so it is unique in its session only. */
export const nameOfRequest = (session: string, requestId: string): string =>
  digestOf(JSON.stringify([session, requestId]))
    .replace(/^sha256:/, "")
    .slice(0, 32)

/** A request that cannot be carried out. Its message is sent to the caller. */
export class Refusal extends Error {
  override readonly name = "Refusal"
}

/** Requests answered from the shared store alone, in the transaction that also records the result. */
export type StoreRequestType =
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
  | "list-personas"

/** Requests that need something outside the shared store: other sessions, processes, a git host. */
export type ExternalRequestType = Exclude<RequestType, StoreRequestType>

export type StoreHandlers = {
  readonly [Type in StoreRequestType]: (
    fields: RequestFields<Type>,
    caller: StoreCaller,
  ) => RequestResult<Type>
}

export type ExternalHandlers = {
  readonly [Type in ExternalRequestType]: (
    fields: RequestFields<Type>,
    caller: Caller,
  ) => Promise<RequestResult<Type>>
}

export const answerStoreRequest = <Type extends StoreRequestType>(
  handlers: StoreHandlers,
  type: Type,
  fields: RequestFields<Type>,
  caller: StoreCaller,
): RequestResult<Type> => handlers[type](fields, caller)

export const answerExternalRequest = async (
  handlers: ExternalHandlers,
  frame: RequestFrame,
  caller: Caller,
): Promise<Record<string, unknown>> => {
  if (!isExternalRequest(handlers, frame)) throw new Refusal(`${frame.type} has no handler`)
  return callExternal(handlers, frame.type, frame, caller)
}

const callExternal = <Type extends ExternalRequestType>(
  handlers: ExternalHandlers,
  type: Type,
  fields: RequestFields<Type>,
  caller: Caller,
): Promise<RequestResult<Type>> => handlers[type](fields, caller)

export const isStoreRequest = (
  handlers: StoreHandlers,
  frame: RequestFrame,
): frame is RequestFrame<StoreRequestType> => Object.hasOwn(handlers, frame.type)

const isExternalRequest = (
  handlers: ExternalHandlers,
  frame: RequestFrame,
): frame is RequestFrame<ExternalRequestType> => Object.hasOwn(handlers, frame.type)

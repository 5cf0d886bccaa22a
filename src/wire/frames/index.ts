/** Every frame between the runner and the session agent, as types and parsers. */
export {
  type CommandFrame,
  type Inbound,
  type InboundFrame,
  inboundMessages,
  inboundTypes,
  parseInbound,
  promptSchema,
} from "./inbound.ts"
export {
  type Outbound,
  type OutboundFrame,
  outboundMessages,
  outboundTypes,
  parseOutbound,
  type ReportFrame,
} from "./outbound.ts"
export type { Parsed } from "./parse.ts"
export {
  isRequest,
  isResult,
  requestDeadlineMs,
  type RequestFields,
  requestFrame,
  type RequestFrame,
  type RequestResult,
  type RequestType,
  type ResultFrame,
} from "./requests.ts"
export type { MessageRow } from "./row.ts"
export type { GitCredentials } from "./shapes.ts"

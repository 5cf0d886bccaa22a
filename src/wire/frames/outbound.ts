/** Every frame that the runner sends to the session agent. */
import { z } from "zod"
import { frameParser } from "./parse.ts"
import { type RequestFrame, requestRows } from "./requests.ts"
import { type MessageRow, row } from "./row.ts"
import { responseRows, stateRows } from "./session-messages.ts"
import { activeTurn, seq } from "./shapes.ts"
import { turnRows } from "./turn-messages.ts"

/** Frames about the link itself. They have no `seq`, because they are not part of the reliable stream. */
const linkRows = [
  row(
    "hello",
    "First frame of every connection: offers the reliable stream and lists the running turns.",
    {
      protocol: z.literal(2),
      runner: z.object({
        name: z.string(),
        version: z.string(),
        gatewayUrl: z.string().optional(),
        /** Where the agent works: clients show paths below it without it. */
        directory: z.string().optional(),
      }),
      sessionId: z.string(),
      epoch: z.string(),
      nextSeq: seq,
      active: z.array(activeTurn),
      /** Frames of the session agent that not every runner of this protocol knows. */
      accepts: z.array(z.string().max(64)).max(50).optional(),
    },
  ),
  row("ping", "Keepalive; the response is `pong`.", {}),
] as const

const reports = [...linkRows, ...turnRows, ...stateRows, ...responseRows] as const

/** Every outbound frame except the runner's requests. */
export type ReportFrame = z.output<(typeof reports)[number]["schema"]>

export type OutboundFrame = ReportFrame | RequestFrame

export type Outbound<Type extends OutboundFrame["type"]> = Extract<
  OutboundFrame,
  { readonly type: Type }
>

export const outboundMessages: readonly MessageRow<z.ZodType<OutboundFrame>>[] = [
  ...reports,
  ...requestRows,
]

export const outboundTypes: readonly string[] = outboundMessages.map(({ type }) => type)

export const parseOutbound = frameParser<OutboundFrame>(
  new Map(outboundMessages.map(({ type, schema }) => [type, schema])),
)

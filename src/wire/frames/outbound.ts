/** Every message that the runner sends to the session agent. */
import { z } from "zod"
import { frameParser } from "./parse.ts"
import { type RequestFrame, requestRows } from "./requests.ts"
import { type MessageRow, row } from "./row.ts"
import { answerRows, stateRows } from "./session-messages.ts"
import { activeTurn, seq } from "./shapes.ts"
import { turnRows } from "./turn-messages.ts"

/** The two that speak of the link itself, and so have no place in the stream. */
const linkRows = [
  row("hello", "The first frame of every connection: offers the reliable stream, says what runs.", {
    protocol: z.literal(2),
    runner: z.object({ name: z.string(), version: z.string() }),
    sessionId: z.string(),
    epoch: z.string(),
    nextSeq: seq,
    active: z.array(activeTurn),
  }),
  row("ping", "Asks for `pong`, to see that the link is alive.", {}),
] as const

const told = [...linkRows, ...turnRows, ...stateRows, ...answerRows] as const

/** What the runner says of its own accord or in answer: everything but its requests. */
export type ReportFrame = z.output<(typeof told)[number]["schema"]>

export type OutboundFrame = ReportFrame | RequestFrame

/** The frame of one type. */
export type Outbound<Type extends OutboundFrame["type"]> = Extract<
  OutboundFrame,
  { readonly type: Type }
>

export const outboundMessages: readonly MessageRow<z.ZodType<OutboundFrame>>[] = [
  ...told,
  ...requestRows,
]

export const outboundTypes: readonly string[] = outboundMessages.map(({ type }) => type)

/** The session agent's door. */
export const parseOutbound = frameParser<OutboundFrame>(
  new Map(outboundMessages.map(({ type, schema }) => [type, schema])),
)

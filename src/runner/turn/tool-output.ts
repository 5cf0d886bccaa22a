/**
 * The output of running tools, while they run. OpenCode reports it as a growing text, of which it keeps only the end; the
 * session agent gets the growth, at most every 100 ms. Pure.
 */
import type { AgentToolPart } from "../opencode/events/events.ts"
import type { ToolCall } from "./tool-calls.ts"
import { type Draft, send, setTimer, turnAddress } from "./draft.ts"

export interface ToolOutput {
  readonly callId: string
  readonly childSessionId?: string
  /** The text as OpenCode reported it last, and as it was when it was sent last. */
  readonly seen: string
  readonly sent: string
  /** Characters of the output that were sent. */
  readonly length: number
}

const BATCH_MS = 100
/** More than this is never sent at once. */
const MAX_CHARACTERS = 65_536

export const onToolOutput = (turn: Draft, part: AgentToolPart): void => {
  if (part.status !== "running" || !part.liveOutput) return
  const isChild = part.agentSessionId !== turn.identity.agentSessionId
  const childSessionId = isChild ? part.agentSessionId : undefined
  const index = turn.outputs.findIndex(
    (output) => output.callId === part.callId && output.childSessionId === childSessionId,
  )
  const known = turn.outputs[index] ?? {
    callId: part.callId,
    ...(childSessionId !== undefined && { childSessionId }),
    sent: "",
    length: 0,
  }
  const output = { ...known, seen: part.liveOutput }
  if (!turn.outputs.some(isUnsent) && isUnsent(output)) setTimer(turn, "tool-output", BATCH_MS)
  turn.outputs = index === -1 ? [...turn.outputs, output] : turn.outputs.with(index, output)
}

/** Sends what is new of every tool's output. */
export const sendOutputs = (turn: Draft): void => {
  turn.outputs = turn.outputs.map((output) => {
    const { callId, childSessionId, seen, sent, length } = output
    const delta = growth(sent, seen).slice(-MAX_CHARACTERS)
    if (delta !== "")
      send(turn, {
        type: "message.part.tool-output",
        callId,
        ...(childSessionId !== undefined && { childSessionId }),
        offset: length,
        delta,
        ...turnAddress(turn),
      })
    return { ...output, sent: seen, length: length + delta.length }
  })
}

/** The call has ended. A failed one has no result, so the rest of its output is sent before. */
export const endOutput = (
  turn: Draft,
  { callId, childSessionId, status }: Pick<ToolCall, "callId" | "childSessionId" | "status">,
): void => {
  if (status === "error") sendOutputs(turn)
  turn.outputs = turn.outputs.filter(
    (output) => output.callId !== callId || output.childSessionId !== childSessionId,
  )
}

const isUnsent = ({ seen, sent }: ToolOutput): boolean => seen !== sent

/** What OpenCode puts before the end of an output whose start it has cut. */
const CUT = /^\.\.\.\n\n/
/** Enough to find the place where the last text ended. */
const OVERLAP = 200

/** The text that `after` has beyond `before`. When the place cannot be found, everything that is left of it. */
export const growth = (before: string, after: string): string => {
  if (after.startsWith(before)) return after.slice(before.length)
  const rest = after.replace(CUT, "")
  const end = before.slice(-OVERLAP)
  const at = rest.lastIndexOf(end)
  return at === -1 ? rest : rest.slice(at + end.length)
}

/**
 * Compacts unsent frames without losing content: deltas of one part become one frame, and a state that a later frame
 * replaces is removed. Frames that end something, results and requests are never touched. Pure.
 */
import type { OutboundFrame } from "../../wire/frames/index.ts"

export const compactFrames = (lines: readonly string[]): readonly string[] => {
  const frames = lines.map((line) => JSON.parse(line) as OutboundFrame)
  const superseded = findSuperseded(frames)
  const kept: OutboundFrame[] = []
  /** For each turn, the index of its last frame in `kept`: a delta may only be merged with that frame. */
  const tails = new Map<string, number>()
  frames.forEach((frame, index) => {
    if (superseded.has(index)) return
    if (!("turnId" in frame) || frame.turnId === undefined) return void kept.push(frame)
    const tail = tails.get(frame.turnId)
    const last = tail === undefined ? undefined : kept[tail]
    const merged = last && mergeDeltas(last, frame)
    if (tail !== undefined && merged) {
      kept[tail] = merged
      return
    }
    tails.set(frame.turnId, kept.length)
    kept.push(frame)
  })
  return kept.length === lines.length ? lines : kept.map((frame) => JSON.stringify(frame))
}

type Delta = Extract<
  OutboundFrame,
  { type: "message.part.text-delta" | "message.part.reasoning-delta" }
>

export const isDelta = (frame: OutboundFrame): frame is Delta =>
  frame.type === "message.part.text-delta" || frame.type === "message.part.reasoning-delta"

/** Merges two consecutive deltas of the same part and turn; undefined for any other pair. */
export const mergeDeltas = (
  first: OutboundFrame,
  second: OutboundFrame,
): OutboundFrame | undefined => {
  if (!isDelta(first) || !isDelta(second) || first.type !== second.type) return undefined
  if (first.turnId !== second.turnId || first.partId !== second.partId) return undefined
  return { ...first, delta: first.delta + second.delta }
}

/** Indexes of frames that report a state (status, to-do list, tool call) which a later frame reports again. */
const findSuperseded = (frames: readonly OutboundFrame[]): ReadonlySet<number> => {
  const newest = new Set<string>()
  const superseded = new Set<number>()
  for (let index = frames.length - 1; index >= 0; index -= 1) {
    const key = stateKey(frames[index])
    if (key === undefined) continue
    if (newest.has(key)) superseded.add(index)
    newest.add(key)
  }
  return superseded
}

const stateKey = (frame: OutboundFrame | undefined): string | undefined => {
  switch (frame?.type) {
    case "agentStatus":
      return `status ${frame.messageId} ${frame.channelType} ${frame.channelId}`
    case "todo":
      return `todo ${frame.turnId}`
    case "message.part.tool-update":
      return `tool ${frame.turnId} ${frame.childSessionId} ${frame.callId}`
    case "models":
    case "services":
    case "tunnels":
    case "git-state":
    case "files-changed":
    case "sandbox-used":
      return frame.type
    default:
      return undefined
  }
}

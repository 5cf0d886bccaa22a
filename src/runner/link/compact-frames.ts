/**
 * Compacts unsent frames without losing content: deltas of one part become one frame, and a state that a later frame
 * replaces is removed. Frames that end something, results and requests are never touched. Pure.
 */
import type { OutboundFrame } from "../../wire/frames/index.ts"

export const compactFrames = (lines: readonly string[]): readonly string[] => {
  const frames = lines.map((line) => JSON.parse(line) as OutboundFrame)
  const superseded = findSuperseded(frames)
  const kept: OutboundFrame[] = []
  /** For each turn, the index of its last frame in `kept`: a delta may only be merged with the frame right before it. */
  const tails = new Map<string, number>()
  frames.forEach((frame, index) => {
    if (superseded.has(index)) return
    if (!("turnId" in frame)) return void kept.push(frame)
    const tail = tails.get(frame.turnId)
    const last = tail === undefined ? undefined : kept[tail]
    if (tail !== undefined && last && isDelta(last) && isDelta(frame) && samePart(last, frame)) {
      kept[tail] = { ...last, delta: last.delta + frame.delta }
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

const isDelta = (frame: OutboundFrame): frame is Delta =>
  frame.type === "message.part.text-delta" || frame.type === "message.part.reasoning-delta"

const samePart = (a: Delta, b: Delta): boolean => a.type === b.type && a.partId === b.partId

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
      return `tool ${frame.turnId} ${frame.callId}`
    case "models":
    case "tunnels":
    case "git-state":
      return frame.type
    default:
      return undefined
  }
}

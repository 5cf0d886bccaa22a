/**
 * The turns of a conversation: a prompt and the replies to it, with the parts of each reply as the blocks of a log.
 * Questions, todo lists and the work of sub-agents are not blocks of their own place: see `Block`.
 */
import type {
  MessagePart,
  MessageWithParts,
  PartData,
  ToolData,
} from "../../wire/clients/conversation.ts"
import type { Pending, View } from "./view.ts"
import { isLookup, kindOf, toolOf } from "./tool-words.ts"

export interface Turn {
  /** The id of the prompt; of a turn without one, the id of its first message. */
  readonly id: string
  readonly prompt?: MessageWithParts
  /** Replies and system messages. An error that a reply and a system message both report is kept once. */
  readonly replies: readonly MessageWithParts[]
}

/** One row of a reply. */
export type Block =
  | { readonly type: "text"; readonly id: string; readonly text: string }
  /** `tookMs`: how long the agent thought, once that is known. */
  | {
      readonly type: "reasoning"
      readonly id: string
      readonly text: string
      readonly tookMs?: number
    }
  | {
      readonly type: "tool"
      readonly id: string
      readonly tool: ToolData
      readonly output?: string
    }
  /** Finished look-ups in a row. */
  | { readonly type: "lookups"; readonly id: string; readonly tools: readonly ToolData[] }
  /** A sub-agent with its own blocks. */
  | {
      readonly type: "task"
      readonly id: string
      readonly tool: ToolData
      readonly blocks: readonly Block[]
    }
  /** A question that was asked; its answer is in `tool.result`. */
  | { readonly type: "asked"; readonly id: string; readonly tool: ToolData }
  | { readonly type: "plan"; readonly id: string; readonly items: readonly PlanItem[] }
  /** Any other part: `compacted`, `extra`, `transcript`. */
  | { readonly type: "other"; readonly id: string; readonly kind: string; readonly data: unknown }

export interface PlanItem {
  readonly content: string
  readonly status: string
}

export type TurnsOf = (view: View, channel: string) => readonly Turn[]

/** Turns and lists that have not changed are the same objects as in the call before. */
export const createTurns = (): TurnsOf => {
  let former: Former | undefined
  return (view, channel) => {
    if (former?.messages === view.messages && former.channel === channel) return former.turns
    const known = new Map(former?.turns.map((turn) => [turn.id, turn]))
    const turns = groupTurns(view, channel).map((turn) => {
      const before = known.get(turn.id)
      return before && isSameTurn(before, turn) ? before : turn
    })
    former = { messages: view.messages, channel, turns }
    return turns
  }
}

interface Former {
  readonly messages: View["messages"]
  readonly channel: string
  readonly turns: readonly Turn[]
}

const isSameTurn = (a: Turn, b: Turn): boolean =>
  a.prompt === b.prompt &&
  a.replies.length === b.replies.length &&
  a.replies.every((reply, index) => reply === b.replies[index])

const groupTurns = (view: View, channel: string): readonly Turn[] => {
  const turns: { id: string; prompt?: MessageWithParts; replies: MessageWithParts[] }[] = []
  const byPrompt = new Map<string, (typeof turns)[number]>()
  for (const id of view.order) {
    const message = view.messages.get(id)
    if (message?.channel !== channel) continue
    const own = message.promptId === undefined ? undefined : byPrompt.get(message.promptId)
    if (message.role !== "user" && own) own.replies.push(message)
    else {
      const turn =
        message.role === "user" ? { id, prompt: message, replies: [] } : { id, replies: [message] }
      turns.push(turn)
      if (message.promptId !== undefined) byPrompt.set(message.promptId, turn)
    }
  }
  return turns.map((turn) => ({ ...turn, replies: withoutRepeatedErrors(turn.replies) }))
}

/** A failed prompt is reported by its reply and by a system message: the reply is enough. */
const withoutRepeatedErrors = (
  replies: readonly MessageWithParts[],
): readonly MessageWithParts[] => {
  const errors = new Set(
    replies.flatMap(({ role, error }) => (role === "assistant" && error ? [error] : [])),
  )
  return replies.filter(
    ({ role, error, parts }) =>
      role !== "system" || error === undefined || parts.length > 0 || !errors.has(error),
  )
}

/** Prompts that the hub has not confirmed, oldest first: shown at the end of their conversation. */
export const pendingPrompts = (view: View, channel: string): readonly Pending[] =>
  view.outbox.filter(
    ({ message }) =>
      message.type === "prompt" &&
      `${message.channelType ?? "web"}:${message.channelId ?? "default"}` === channel,
  )

/** The rows of a reply, in order. */
export const blocksOf = (message: MessageWithParts): readonly Block[] => {
  const children = new Map<string, MessagePart[]>()
  const own: MessagePart[] = []
  for (const part of message.parts) {
    const child = childOf(part)
    if (child === undefined) own.push(part)
    else children.set(child, [...(children.get(child) ?? []), part])
  }
  const takeChild = (tool: ToolData): readonly MessagePart[] => {
    if (tool.child === undefined) return []
    const parts = children.get(tool.child) ?? []
    children.delete(tool.child)
    return parts
  }
  const rows = own.flatMap((part) => blockOf(part, takeChild))
  // The task that started them is not known: their work is shown after the reply's own rows.
  const orphans = [...children.values()].flat().flatMap((part) => blockOf(part, () => []))
  return groupLookups([...rows, ...orphans])
}

/** The session of the sub-agent that the part belongs to; `undefined` for the turn's own parts. */
export const childOf = ({ data }: MessagePart): string | undefined => {
  if (typeof data !== "object" || data === null) return undefined
  const { childSessionId } = data as { readonly childSessionId?: unknown }
  return typeof childSessionId === "string" ? childSessionId : undefined
}

const blockOf = (
  part: MessagePart,
  takeChild: (tool: ToolData) => readonly MessagePart[],
): readonly Block[] => {
  const { id, kind, text = "", data } = part
  if (text === "" && (kind === "text" || kind === "reasoning")) return []
  if (kind === "text") return [{ type: kind, id, text }]
  if (kind === "reasoning") return [{ type: kind, id, text, ...tookOf(data) }]
  if (kind === "todo") return [{ type: "plan", id, items: planItems(data) }]
  const tool = toolOf(part)
  if (!tool) return [{ type: "other", id, kind, data }]
  switch (kindOf(tool.toolName)) {
    case "plan":
      return []
    case "question":
      return [{ type: "asked", id, tool }]
    case "task": {
      // Not grouped: the steps of a sub-agent are looked at one by one, when a person opens them.
      const blocks = takeChild(tool).flatMap((child) => blockOf(child, takeChild))
      return [{ type: "task", id, tool, blocks }]
    }
    default:
      return [{ type: "tool", id, tool, ...(part.text !== undefined && { output: part.text }) }]
  }
}

const tookOf = (data: unknown): { readonly tookMs?: number } => {
  const { startedAt, endedAt } = (data ?? {}) as PartData
  return startedAt === undefined || endedAt === undefined
    ? {}
    : { tookMs: Math.max(0, endedAt - startedAt) }
}

const groupLookups = (blocks: readonly Block[]): readonly Block[] => {
  const grouped: Block[] = []
  for (const block of blocks) {
    const last = grouped.at(-1)
    if (block.type !== "tool" || !isLookup(block.tool)) grouped.push(block)
    else if (last?.type === "lookups")
      grouped.splice(-1, 1, { ...last, tools: [...last.tools, block.tool] })
    else if (last?.type === "tool" && isLookup(last.tool))
      grouped.splice(-1, 1, { type: "lookups", id: last.id, tools: [last.tool, block.tool] })
    else grouped.push(block)
  }
  return grouped
}

/** The todo list of a `todo` part; items that are not items are left out. */
export const planItems = (data: unknown): readonly PlanItem[] => {
  const items = (data as { readonly items?: unknown } | null | undefined)?.items
  return Array.isArray(items) ? items.filter(isPlanItem) : []
}

const isPlanItem = (item: unknown): item is PlanItem =>
  typeof item === "object" &&
  item !== null &&
  typeof (item as Partial<PlanItem>).content === "string" &&
  typeof (item as Partial<PlanItem>).status === "string"

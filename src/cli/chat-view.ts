/**
 * Renders a session's events as terminal output: streamed text, tool calls and their output, todo lists, errors. The state
 * comes from the reducer of `hub/view`; this file prints what is new in it. Does no I/O itself.
 */
import { step } from "../hub/view/step.ts"
import { toolOf } from "../hub/view/tool-words.ts"
import { childOf, planItems } from "../hub/view/turns.ts"
import { emptyView, type HubEvent as SessionEvent } from "../hub/view/view.ts"
import type { MessagePart, MessageWithParts, ToolData } from "../wire/clients/conversation.ts"
import { visibleText } from "../lib/visible-text.ts"
import type { HubEvent } from "./hub-client.ts"

export interface ChatViewOptions {
  readonly write: (text: string) => void
  /** True on a terminal, false for a pipe. */
  readonly colours: boolean
  /** Shows only the replies to prompts that match; without it, the whole session. */
  readonly only?: (promptId: string | undefined) => boolean
}

export interface ChatView {
  readonly show: (event: HubEvent) => void
  readonly line: (text: string) => void
  readonly dim: (text: string) => string
  readonly style: (code: string, text: string) => string
}

export const createChatView = ({ write, colours, only }: ChatViewOptions): ChatView => {
  const style = (code: string, text: string) => (colours ? `\u001B[${code}m${text}\u001B[0m` : text)
  const dim = (text: string) => style("2", text)
  let view = emptyView
  /** Messages that are not shown: finished before the chat started, typed by the user, or replies to other prompts. */
  const skipped = new Set<string>()
  /** What is on the screen: the status of messages and tools, and how many characters of each part. */
  const statuses = new Map<string, string>()
  const printed = new Map<string, number>()
  /** The output of running tools that is on the screen. */
  const live = new Map<string, string>()
  /** The kind of output on the current line, so that another kind starts a new line. */
  let open: "nothing" | "text" | "reasoning" | "output" = "nothing"

  const line = (text: string) => {
    write(`${open === "nothing" ? "" : "\n"}${text}\n`)
    open = "nothing"
  }
  const printText = (key: string, kind: "text" | "reasoning" | "output", text: string) => {
    const fresh = text.slice(printed.get(key) ?? 0)
    if (fresh === "") return
    printed.set(key, text.length)
    if (open !== "nothing" && open !== kind) write("\n")
    open = kind
    const shown = visibleText(fresh)
    write(kind === "text" ? shown : dim(shown))
  }

  const printStatus = ({ id, status, error }: MessageWithParts) => {
    if (statuses.get(id) === status) return
    statuses.set(id, status)
    if (status === "error") return line(style("31", `✗ ${visibleText(error ?? "failed")}`))
    if (status === "canceled") return line(dim("  stopped"))
    if (status === "done" && open !== "nothing") line("")
  }

  const printPart = (messageId: string, part: MessagePart) => {
    const key = `${messageId}/${part.id}`
    // The words of sub-agents are not the answer.
    if ((part.kind === "text" || part.kind === "reasoning") && childOf(part) === undefined)
      return printText(key, part.kind, part.text ?? "")
    const tool = toolOf(part)
    if (tool) return printTool(key, tool, part.text)
    if (part.kind === "todo") printPlan(key, part.data)
  }

  const printPlan = (key: string, data: unknown) => {
    const plan = planItems(data)
      .map(({ status, content }) => `  ${mark(status)} ${visibleText(content)}`)
      .join("\n")
    if (statuses.get(key) === plan) return
    statuses.set(key, plan)
    line(dim(plan))
  }

  const printTool = (key: string, tool: ToolData, output: string | undefined) => {
    const { toolName, status, args, result, error } = tool
    // Todo lists and questions have a rendering of their own.
    if (toolName === "todowrite" || toolName === "question") return
    if (statuses.get(key) !== status) {
      statuses.set(key, status)
      if (status === "running") line(dim(`  ● ${visibleText(toolName)} ${short(args)}`))
      if (status === "error")
        line(style("31", `  ✗ ${visibleText(`${toolName}: ${error ?? "failed"}`)}`))
      // The output that was printed while it ran is the beginning of its result, mostly all of it.
      const isPrinted = printed.has(key)
      if (status === "completed" && isPrinted && typeof result === "string") printRest(key, result)
      if (status === "completed" && isPrinted && open === "output") line("")
      if (status === "completed" && !isPrinted && typeof result === "string") {
        if (result.trim() !== "") line(dim(indent(short(result.trim(), 600))))
      }
    }
    if (status === "running" && output !== undefined) printOutput(key, output, tool.cut ?? 0)
  }
  /** A tool that ends right after its last words has not sent them as live output. */
  const printRest = (key: string, result: string) => {
    const begun = live.get(key) ?? ""
    live.delete(key)
    const whole = result.trimEnd()
    if (whole.length > begun.length && whole.startsWith(begun)) printOutput(key, whole, 0)
  }
  /** Live output, as far as it is short: a flood of lines would hide the conversation. */
  const printOutput = (key: string, output: string, cut: number) => {
    if (cut > 0 || (printed.get(key) ?? 0) >= OUTPUT_CHARACTERS) return
    const shown = output.slice(0, OUTPUT_CHARACTERS)
    live.set(key, shown)
    printText(key, "output", shown)
  }

  const printMessage = (message: MessageWithParts) => {
    // The user's own text is on the screen already.
    if (message.role === "user" || (only && !only(message.promptId))) skipped.add(message.id)
    if (skipped.has(message.id)) return
    for (const part of message.parts) printPart(message.id, part)
    printStatus(message)
  }

  const show = (event: HubEvent): void => {
    const before = view.messages
    view = step(view, { type: "event", event: event as unknown as SessionEvent })
    if (event.type === "snapshot") {
      for (const { id, status } of view.messages.values())
        if (status !== "streaming" && !statuses.has(id)) skipped.add(id)
    }
    // What is on the screen cannot be taken back, so a line says that it was replaced.
    if (event.type === "part.removed") {
      if (printed.delete(`${String(event["messageId"])}/${String(event["partId"])}`))
        line(dim("  the text above is withdrawn: the attempt failed"))
    }
    for (const [id, message] of view.messages) if (before.get(id) !== message) printMessage(message)
    if (event.type === "state" && String(event["name"]).startsWith("retry:") && event["value"]) {
      const { attempt, message } = event["value"] as { attempt: number; message: string }
      line(dim(`  the call of the model failed, retry ${attempt}: ${visibleText(message)}`))
    }
  }
  return { show, line, dim, style }
}

/** Of the output of one running tool. */
const OUTPUT_CHARACTERS = 4000

const mark = (status: string): string =>
  status === "completed" ? "☑" : status === "in_progress" ? "▸" : "☐"

const short = (value: unknown, limit = 160): string => {
  const text = visibleText(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))
  return text.length > limit ? `${text.slice(0, limit)}…` : text
}

const indent = (text: string): string => text.replaceAll(/^/gm, "    ")

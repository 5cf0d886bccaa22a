/** Renders a session's events as terminal output: streamed text, tool calls, todo lists, errors. Does no I/O itself. */
import { visibleText } from "./chat/visible-text.ts"
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

interface Part {
  readonly id: string
  readonly kind: string
  readonly text?: string
  readonly data?: Record<string, unknown>
}

interface Message {
  readonly id: string
  readonly role: string
  readonly status: string
  readonly promptId?: string
  readonly error?: string
  readonly parts?: readonly Part[]
}

export const createChatView = ({ write, colours, only }: ChatViewOptions): ChatView => {
  const style = (code: string, text: string) => (colours ? `\u001B[${code}m${text}\u001B[0m` : text)
  const dim = (text: string) => style("2", text)
  /** Messages that are shown, by id, with their last status. */
  const messages = new Map<string, string>()
  /** Messages that are not shown: finished before the chat started, typed by the user, or replies to other prompts. */
  const skipped = new Set<string>()
  /** How many characters of each part are on the screen. */
  const printed = new Map<string, number>()
  const kinds = new Map<string, string>()
  const tools = new Map<string, string>()
  /** The kind of output on the current line, so that another kind starts a new line. */
  let open: "nothing" | "text" | "reasoning" = "nothing"

  const line = (text: string) => {
    write(`${open === "nothing" ? "" : "\n"}${text}\n`)
    open = "nothing"
  }
  const printText = (messageId: string, partId: string, offset: number, text: string) => {
    const key = `${messageId}/${partId}`
    const kind = kinds.get(key)
    const done = printed.get(key) ?? 0
    const fresh = text.slice(Math.max(0, done - offset))
    if (fresh === "" || (kind !== "text" && kind !== "reasoning")) return
    printed.set(key, offset + text.length)
    if (open !== "nothing" && open !== kind) write("\n")
    open = kind
    const shown = visibleText(fresh)
    write(kind === "text" ? shown : dim(shown))
  }

  const onMessage = (message: Message) => {
    // The user's own text is on the screen already.
    if (message.role === "user" || (only && !only(message.promptId)))
      return void skipped.add(message.id)
    const before = messages.get(message.id)
    messages.set(message.id, message.status)
    if (skipped.has(message.id) || before === message.status) return
    if (message.status === "error")
      return line(style("31", `✗ ${visibleText(message.error ?? "failed")}`))
    if (message.status === "canceled") return line(dim("  stopped"))
    if (message.status === "done" && open !== "nothing") line("")
  }

  const onPart = (messageId: string, part: Part) => {
    if (skipped.has(messageId) || !messages.has(messageId)) return
    kinds.set(`${messageId}/${part.id}`, part.kind)
    if (part.text !== undefined) return printText(messageId, part.id, 0, part.text)
    if (part.kind === "tool" && part.data) onTool(`${messageId}/${part.id}`, part.data)
    if (part.kind === "todo" && part.data) line(dim(todo(part.data["items"])))
  }

  const onTool = (key: string, data: Record<string, unknown>) => {
    const { toolName, status, args, result, error } = data
    // Todo lists and questions have a rendering of their own.
    if (toolName === "todowrite" || toolName === "question" || tools.get(key) === status) return
    tools.set(key, String(status))
    if (status === "running") line(dim(`  ● ${visibleText(String(toolName))} ${short(args)}`))
    if (status === "completed" && typeof result === "string" && result.trim() !== "") {
      line(dim(indent(short(result.trim(), 600))))
    }
    if (status === "error")
      line(
        style(
          "31",
          `  ✗ ${visibleText(`${String(toolName)}: ${typeof error === "string" ? error : "failed"}`)}`,
        ),
      )
  }

  const show = (event: HubEvent): void => {
    switch (event.type) {
      case "snapshot":
        for (const message of event["messages"] as Message[]) {
          if (message.status === "streaming") {
            messages.set(message.id, message.status)
            for (const part of message.parts ?? []) onPart(message.id, part)
          } else skipped.add(message.id)
        }
        return
      case "message":
        return onMessage(event["message"] as Message)
      case "part":
        return onPart(String(event["messageId"]), event["part"] as Part)
      case "part.delta": {
        const messageId = String(event["messageId"])
        if (skipped.has(messageId) || !messages.has(messageId)) return
        return printText(
          messageId,
          String(event["partId"]),
          Number(event["offset"]),
          String(event["text"]),
        )
      }
      case "part.removed":
        // What is on the screen cannot be taken back, so a line tells the reader.
        if (printed.delete(`${String(event["messageId"])}/${String(event["partId"])}`))
          line(dim("  the text above is withdrawn: the attempt failed"))
        return
      case "state":
        if (String(event["name"]).startsWith("retry:") && event["value"] !== null) {
          const { attempt, message } = event["value"] as { attempt: number; message: string }
          line(dim(`  no answer yet, retry ${attempt}: ${visibleText(message)}`))
        }
        return
      default:
        return
    }
  }
  return { show, line, dim, style }
}

const todo = (items: unknown): string =>
  (items as { content: string; status: string }[])
    .map(({ status, content }) => `  ${mark(status)} ${visibleText(content)}`)
    .join("\n")

const mark = (status: string): string =>
  status === "completed" ? "☑" : status === "in_progress" ? "▸" : "☐"

const short = (value: unknown, limit = 160): string => {
  const text = visibleText(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))
  return text.length > limit ? `${text.slice(0, limit)}…` : text
}

const indent = (text: string): string => text.replaceAll(/^/gm, "    ")

/** A chat in the terminal: one prompt a line, the answer as it comes. Knows frames and lines, nothing else. */
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import type { OutboundFrame } from "../protocol/index.ts"
import type { SessionAgent } from "./session-agent.ts"

export interface ChatOptions {
  readonly input: Readable
  readonly output: Writable
  /** A person at a terminal sees colours and a prompt sign; a pipe gets plain text. */
  readonly interactive: boolean
  /** What to say above the first prompt, once the agent is ready. */
  readonly greeting: () => string
}

export interface Chat {
  readonly onFrame: (frame: OutboundFrame) => void
  /** Resolves when the person is done: end of input with nothing left to answer, or Ctrl-C at rest. */
  readonly finished: Promise<void>
  readonly start: (agent: Pick<SessionAgent, "prompt" | "answer" | "abort">) => void
}

export const createChat = ({ input, output, interactive, greeting }: ChatOptions): Chat => {
  const finished = Promise.withResolvers<void>()
  const style = (code: string, text: string) =>
    interactive ? `\u001B[${code}m${text}\u001B[0m` : text
  const dim = (text: string) => style("2", text)
  const lines = createInterface({ input, output, terminal: interactive, prompt: style("36", "> ") })
  let waiting = 0
  let ended = false
  let ready = false
  /** Where the cursor stands, so that a new kind of output starts on a line of its own. */
  let open: "nothing" | "text" | "reasoning" = "nothing"
  const questions: Extract<OutboundFrame, { type: "question" }>[] = []

  const write = (text: string) => output.write(text)
  const line = (text: string) => {
    write(`${open === "nothing" ? "" : "\n"}${text}\n`)
    open = "nothing"
  }
  const say = (kind: "text" | "reasoning", text: string) => {
    if (open !== "nothing" && open !== kind) write("\n")
    open = kind
    write(kind === "text" ? text : dim(text))
  }
  const rest = () => {
    if (ended && waiting === 0) return finished.resolve()
    if (interactive && waiting === 0) lines.prompt()
  }

  const onFrame = (frame: OutboundFrame): void => {
    switch (frame.type) {
      case "message.part.text-delta":
        return say("text", frame.delta)
      case "message.part.reasoning-delta":
        return say("reasoning", frame.delta)
      case "message.part.tool-update":
        return onTool(frame)
      case "todo":
        return line(
          dim(frame.items.map((item) => `  ${mark(item.status)} ${item.content}`).join("\n")),
        )
      case "question":
        questions.push(frame)
        return ask(frame)
      case "retry":
        return line(dim(`  the model is busy, trying again (${frame.attempt}): ${frame.message}`))
      case "error":
        return line(style("31", `✗ ${frame.error}`))
      case "message.finalize":
        if (frame.reason === "error") return line(style("31", `✗ ${frame.error ?? "failed"}`))
        if (frame.reason === "canceled") return line(dim("  stopped"))
        return open === "nothing" ? undefined : line("")
      case "complete":
        waiting = Math.max(0, waiting - 1)
        questions.length = 0
        return rest()
      case "agentStatus":
        if (frame.status === "idle" && !ready) {
          ready = true
          line(greeting())
          rest()
        }
        return
      default:
        return
    }
  }

  const onTool = (frame: Extract<OutboundFrame, { type: "message.part.tool-update" }>) => {
    // The list and the question are shown for themselves.
    if (frame.toolName === "todowrite" || frame.toolName === "question") return
    if (frame.status === "running") line(dim(`  ● ${frame.toolName} ${short(frame.args)}`))
    if (frame.status === "completed") {
      const result = typeof frame.result === "string" ? frame.result.trim() : ""
      if (result !== "") line(dim(indent(short(result, 600))))
    }
    if (frame.status === "error")
      line(style("31", `  ✗ ${frame.toolName}: ${frame.error ?? "failed"}`))
  }

  const ask = ({ text, options }: Extract<OutboundFrame, { type: "question" }>) => {
    const choices = (options ?? []).map((option, index) => `  ${index + 1}. ${option}`)
    line([style("33", `? ${text}`), ...choices].join("\n"))
    if (interactive) lines.prompt()
  }

  return {
    onFrame,
    finished: finished.promise,
    start: (agent) => {
      lines.on("line", (typed) => {
        const text = typed.trim()
        const question = questions.shift()
        if (question) {
          const choice = question.options?.[Number(text) - 1]
          return agent.answer(question.questionId, choice ?? text)
        }
        if (text === "") return rest()
        waiting += 1
        agent.prompt(text)
      })
      lines.on("SIGINT", () => {
        if (waiting === 0) return finished.resolve()
        agent.abort()
      })
      lines.on("close", () => {
        ended = true
        if (ready || waiting === 0) rest()
      })
    },
  }
}

const mark = (status: string): string =>
  status === "completed" ? "☑" : status === "in_progress" ? "▸" : "☐"

const short = (value: unknown, limit = 160): string => {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "")
  return text.length > limit ? `${text.slice(0, limit)}…` : text
}

const indent = (text: string): string => text.replaceAll(/^/gm, "    ")
